"""Credentials a desk brings itself, by the names they go under. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hotdesk.door.head import Slot
from hotdesk.door.held import Refusal, Returning, Sign, Use

CREDENTIAL_HEADERS = frozenset(
    b"authorization proxy-authorization authentication x-authorization x-auth x-auth-token x-auth-key x-auth-email"
    b" x-access-token x-api-key x-api-token api-key apikey api-token x-apikey x-token token x-session-token"
    b" private-token job-token deploy-token x-gitlab-token x-github-token x-amz-security-token x-goog-api-key"
    b" x-goog-iam-authorization-token x-vault-token x-consul-token x-ms-token x-functions-key ocp-apim-subscription-key"
    b" x-shopify-access-token x-figma-token x-jwt-assertion x-id-token x-user-token x-client-secret dd-api-key"
    b" dd-application-key x-rapidapi-key x-subscription-token circle-token fastly-key x-nexus-api-key x-nuget-apikey"
    b" x-jfrog-art-api x-sentry-auth x-parse-session-token xi-api-key".split()
)
CREDENTIAL_PARAMETERS = frozenset(
    "accesstoken refreshtoken idtoken oauthtoken oauthsignature authtoken authorization auth token jwt apikey apitoken"
    " key appkey privatetoken jobtoken clientsecret secret password passwd pwd sig signature xamzsignature"
    " xamzcredential xamzsecuritytoken awsaccesskeyid xgoogsignature xgoogcredential googleaccessid sessionid"
    " subscriptionkey sharedaccesssignature".split()
)
"""By name, without case, `-` and `_`."""


def foreign(
    sent: list[tuple[Slot, bytes]], uses: Mapping[Slot, Use], returned: Mapping[Slot, bytes], issued: Returning | None
) -> Refusal | None:
    """Refuse credentials the desk brings itself, where it goes as us."""
    for slot, value in sent:
        kind, name = slot
        if slot in returned or (slot in uses and uses[slot].held.is_written(slot, value)):
            continue
        if kind == "cookie" and (slot in uses or (issued and issued.knows(name.encode("latin-1"), value))):
            continue
        if is_credential(kind, name):
            reason = f"this host is used with the credentials granted for it; {kind} {name!a:.60} would bring others"
            return Refusal(reason, (Sign("foreign", ""),))
    return None


def is_credential(kind: str, name: str) -> bool:
    """Say whether a part of a head is a credential by its name."""
    if kind == "query":
        return re.sub(r"[-_.\[\]\s]", "", name.lower()) in CREDENTIAL_PARAMETERS
    return kind == "cookie" or name.encode("latin-1") in CREDENTIAL_HEADERS
