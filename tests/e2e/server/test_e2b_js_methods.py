"""Test that calls every public method of E2B's npm packages in Node, and sees it fail where it can."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.server.conftest import Served
from tests.e2e.server.js_packages import install, list_declared, run

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(600)]

OWN = "it only puts words together; nobody is asked"
BUILT = "it only notes a step, which fails when the template is built"
INSIDE = {
    "ApiClient", "ConnectionConfig", "ClientFactory", "EnvdApiClient", "VolumeConnectionConfig", "Paginator",
    "LogEntry", "LogEntryStart", "LogEntryEnd", "ReadyCmd", "E2B", "OutputMessage",
}  # fmt: skip
"""Classes without requests: settings, texts, parts of other classes, and one that the SDK never creates."""
CANNOT_FAIL = {
    "methods.mjs": {
        **dict.fromkeys(
            ("Sandbox#getHost", "Sandbox#getMcpUrl", "Sandbox.list", "Sandbox#listSnapshots", "Sandbox#downloadUrl",
             "Sandbox#uploadUrl", "Secret.fill", "Secret.iamToken", "Secret.list", "SandboxApi.listSnapshots"), OWN,
        ),
        "Sandbox#isRunning": "that a sandbox ended is its answer",
        "CommandHandle#disconnect": "it hangs up, whoever was at the other end",
        "WatchHandle#stop": "it hangs up, whoever was at the other end",
        **dict.fromkeys(
            (
                "TemplateBase#aptInstall", "TemplateBase#bunInstall", "TemplateBase#copy", "TemplateBase#copyItems",
                "TemplateBase#fromAWSRegistry", "TemplateBase#fromAlpineImage", "TemplateBase#fromArchImage",
                "TemplateBase#fromBaseImage", "TemplateBase#fromBunImage", "TemplateBase#fromDebianImage",
                "TemplateBase#fromDockerfile", "TemplateBase#fromFedoraImage", "TemplateBase#fromGCPRegistry",
                "TemplateBase#fromImage", "TemplateBase#fromNodeImage", "TemplateBase#fromPythonImage",
                "TemplateBase#fromTemplate", "TemplateBase#fromUbuntuImage", "TemplateBase#gitClone",
                "TemplateBase#makeDir", "TemplateBase#makeSymlink", "TemplateBase#npmInstall",
                "TemplateBase#pipInstall", "TemplateBase#remove", "TemplateBase#rename", "TemplateBase#runCmd",
                "TemplateBase#setEnvs", "TemplateBase#setReadyCmd", "TemplateBase#setStartCmd", "TemplateBase#setUser",
                "TemplateBase#setWorkdir", "TemplateBase#skipCache", "TemplateBase.toJSON",
            ),
            BUILT,
        ),
    },
    "interpreter.mjs": dict.fromkeys(
        ("Execution#toJSON", "Result#formats", "Result#toJSON"), OWN
    ),
    "desktop.mjs": {
        **dict.fromkeys(("VNCServer#getAuthKey", "VNCServer#getUrl"), OWN),
        "VNCServer#stop": "it ends what this program began, and nothing else",
        "Sandbox#wait": "it only lets time pass",
    },
}  # fmt: skip
"""Methods without an error of their own, and why."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("npm"))


@pytest.mark.parametrize(
    ("package", "program"),
    [("e2b", "methods.mjs"), ("@e2b/code-interpreter", "interpreter.mjs"), ("@e2b/desktop", "desktop.mjs")],
)
def test_every_public_method_is_called_and_fails_where_it_can(
    server: Served, folder: Path, package: str, program: str
) -> None:
    declared = list_declared(folder, package)
    methods = set().union(*(each for name, each in declared.items() if name not in INSIDE and "Error" not in name))
    assert methods
    done = run(folder, program, server)
    assert sorted(methods - done.called) == []
    assert sorted(methods - done.failed) == sorted(CANNOT_FAIL[program])
