"""`/files` without a sandbox's id: the signature identifies the sandbox."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import field

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from hotdesk.api.e2b.envd import envd, files, signing
from hotdesk.api.e2b.ports.traffic import Traffic, answer_too_fast
from hotdesk.api.e2b.responses import E2bError, make_not_running_error
from hotdesk.api.e2b.sandboxes import Sandbox, has_ended
from hotdesk.api.quotas import QuotaError
from hotdesk.dataclass import dataclass
from hotdesk.errors import HotdeskError


@dataclass(frozen=True, slots=True)
class SignedFiles:
    """Answers requests to `/files` that only a signature identifies; they count like other traffic of their sandbox."""

    traffic: Traffic
    tries: signing.Tries = field(default_factory=signing.Tries)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, sandboxes = Request(scope, receive), self.traffic.sandboxes
        with ExitStack() as counted:
            try:
                sandbox = self.find(request)
                counted.enter_context(self.traffic.track_request(sandbox, envd.PORT))
                self.traffic.quotas.ask(sandbox.tenant.name, "calls")
                await self.traffic.wake(sandbox)
                call = envd.EnvdCall(request, sandbox, envd.get_reset(scope), sandboxes.tasks)
                response = await files.respond(call)
            except QuotaError as e:
                response = answer_too_fast(e)
            except HotdeskError:
                response = make_not_running_error("").make_response()
            except E2bError as e:
                response = e.make_response()
            await response(scope, receive, send)

    def find(self, request: Request) -> Sandbox:
        with self.tries.limit_guesses(request.client.host if request.client else ""):
            signed = signing.read(request.query_params, files.choose_act(request))
            there = [each for each in self.traffic.sandboxes.by_id.values() if not has_ended(each)]
            return signing.find(signed, there)
