"""A front end as design 004 describes it: it posts, reads the stream, and looks at the keys of each object."""

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
