"""Other people's names over our code."""
