"""A small AWS client that runs inside a desk: signs one request with the keys in its environment, and sends it."""

import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request
from urllib.parse import quote, urlsplit

asked = json.loads(sys.argv[1])
body = asked.get("body", "").encode() * asked.get("times", 1)
service, region = asked.get("service", "s3"), asked.get("region", "eu-west-1")
key, secret = os.environ[asked.get("key", "AWS_ACCESS_KEY_ID")], os.environ["AWS_SECRET_ACCESS_KEY"]
url = urlsplit(asked["url"])
at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
scope = f"{at[:8]}/{region}/{service}/aws4_request"


def mac(with_key: bytes, text: str) -> bytes:
    return hmac.new(with_key, text.encode(), hashlib.sha256).digest()


headers = {"host": url.netloc, "x-amz-date": at}
digest = asked.get("digest") or hashlib.sha256(body).hexdigest()
if service == "s3":
    headers["x-amz-content-sha256"] = digest
headers |= {name.lower(): value for name, value in asked.get("headers", {}).items()}
names = sorted(headers)
path = url.path if service == "s3" else quote(url.path, safe="/~")
query = "&".join(sorted(pair if "=" in pair else pair + "=" for pair in url.query.split("&") if pair))
lines = [asked["method"], path, query, *(f"{name}:{headers[name]}" for name in names), "", ";".join(names), digest]
summed = hashlib.sha256("\n".join(lines).encode()).hexdigest()
made = ("AWS4" + secret).encode()
for step in scope.split("/"):
    made = mac(made, step)
signature = mac(made, "\n".join(["AWS4-HMAC-SHA256", at, scope, summed])).hex()
target = asked["url"]
if asked.get("presigned"):
    credential = quote(f"{key}/{scope}", safe="")
    target += f"?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Signature={signature}"
elif not asked.get("unsigned"):
    told = f"Credential={key}/{scope}, SignedHeaders={';'.join(names)}, Signature={signature}"
    headers["Authorization"] = f"AWS4-HMAC-SHA256 {told}"
request = urllib.request.Request(target, body or None, headers, method=asked["method"])  # noqa: S310 - https, as asked
try:
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - https, as asked
        print(answer.status, "{}")
except urllib.error.HTTPError as e:
    print(e.code, e.read().decode())
