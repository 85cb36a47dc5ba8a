"""What the gateway keeps from one request to the next: sampled turns and stored responses."""
