"""A front end written from design 004 alone: posts a request, reads the stream and shows each event by its keys."""

import json
import sys
import urllib.request

url, token, body = sys.argv[1:]
headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
request = urllib.request.Request(url, body.encode(), headers)
with urllib.request.urlopen(request) as response:
    for line in response:
        if not line.startswith(b"data:"):
            continue
        event = json.loads(line[5:])
        if "text" in event:
            print(json.dumps(["text", event["text"]]))
        elif "tool" in event:
            print(json.dumps(["tool", event["tool"], event["input"]]))
        elif "complete" in event:
            print(json.dumps(["complete", event["extraction_id"], event["cost"]]))
