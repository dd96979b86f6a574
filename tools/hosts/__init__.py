"""The host lab: hotdesk is installed and used on virtual machines like those of its users. `make test-hosts`.

A machine (`machines.py`) is a Debian with its stock kernel and systemd, made from this machine's package sources
(`root.py`, `disk.py`) and emulated by QEMU without KVM (`emulator.py`). It has no network. A second, read-only disk
brings the wheel, Debian packages, a signed image and tests (`kit.py`). Commands reach a program inside over a serial
port (`inside/agent.py`). The steps of each machine are in `steps.py`, their results in `results.py`.
Design: `docs/design/029-host-lab.md`.
"""
