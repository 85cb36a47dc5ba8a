"""Prints the prompt of a request in OpenAI's form: python examples/encode.py [request.json]"""

import json
import sys
from pathlib import Path

import dsv4

path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("conversation.json")
request = json.loads(path.read_text(encoding="utf-8"))
prompt = dsv4.encode(
    request["messages"],
    tools=request.get("tools"),
    response_format=request.get("response_format"),
)
print(prompt)
