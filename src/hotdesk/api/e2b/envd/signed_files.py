"""`/files` without a sandbox's id: the signature identifies the sandbox."""

from __future__ import annotations

from dataclasses import field

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from hotdesk.api.e2b.envd import envd, files, signing
from hotdesk.api.e2b.responses import E2bError, make_not_running_error
from hotdesk.api.e2b.sandboxes import Sandboxes
from hotdesk.dataclass import dataclass
from hotdesk.errors import HotdeskError


@dataclass(frozen=True, slots=True)
class SignedFiles:
    """Answers requests to `/files` that only a signature identifies."""

    sandboxes: Sandboxes
    tries: signing.Tries = field(default_factory=signing.Tries)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        address = request.client.host if request.client else ""
        try:
            with self.tries.limit_guesses(address):
                signed = signing.read(request.query_params, files.choose_act(request))
                sandbox = signing.find(signed, [one for one in self.sandboxes.by_id.values() if one.state == "running"])
            call = envd.EnvdCall(request, sandbox, envd.get_reset(scope), self.sandboxes.tasks)
            response = await files.respond(call)
        except HotdeskError:
            response = make_not_running_error("").make_response()
        except E2bError as e:
            response = e.make_response()
        await response(scope, receive, send)
