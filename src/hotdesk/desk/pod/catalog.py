"""The images and walls that an agent for pods offers, from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from hotdesk.dataclass import dataclass
from hotdesk.desk.pod.manifest import PodTemplate
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError, ImageError, WallError
from hotdesk.walls import NOMINAL_CATALOG, Traits, WallCatalog, WallStatus

_VERSION = "Kubernetes pod"


@dataclass(frozen=True, slots=True)
class PodCatalog:
    """What desks an agent can open as pods."""

    template: PodTemplate
    """What pods have in common; its image and RuntimeClass are replaced."""
    images: Mapping[str, str]
    """References of container images, by the names of images."""
    walls: Mapping[str, str] = field(default_factory=lambda: {"container": ""})
    """RuntimeClasses by wall; empty: the nodes' usual runtime, which is no wall but `container`."""

    def __post_init__(self) -> None:
        if unnamed := [wall for wall, name in self.walls.items() if not name and wall != "container"]:
            raise BriefError(
                f"[pods] walls: {unnamed[0]} needs the name of a RuntimeClass; without one it would be a container"
            )

    def find_template(self, spec: Spec) -> PodTemplate:
        """Return the template for a desk; raise `BriefError` with the reason if it cannot be a pod."""
        refuse_abilities(spec)
        if spec.wall not in self.walls:
            raise WallError(f"desks as pods have the walls {', '.join(sorted(self.walls))} here, not {spec.wall}")
        return replace(self.template, image=self.find_reference(spec.image), runtime_class=self.walls[spec.wall])

    def find_probe_template(self) -> PodTemplate:
        """Return the template of the probes of the network: the first image, and the first wall's RuntimeClass."""
        image, runtime_class = next(iter(self.images.values()), ""), next(iter(self.walls.values()), "")
        return replace(self.template, image=image, runtime_class=runtime_class)

    def find_reference(self, image: str) -> str:
        if (reference := self.images.get(image)) is None:
            raise ImageError(
                f"image {image!r} is not available as a pod; the images here are {', '.join(sorted(self.images))}"
            )
        return reference

    def list_walls(self) -> WallCatalog:
        """Return these walls with the abilities that they have in a pod."""
        return WallCatalog(
            {name: WallStatus(name, _get_pod_traits(name), version=_VERSION, platform=self.walls[name] or "default")
             for name in self.walls}
        )  # fmt: skip


def _get_pod_traits(wall: str) -> Traits:
    """Return the abilities of a wall in a pod: the agent has no access to the node."""
    return replace(
        NOMINAL_CATALOG.find(wall).traits,
        can_keep_memory=False,
        can_stop_programs=False,
        can_resize=False,
        survives_exhaustion=False,
        can_dial=False,
        counts_programs=False,
        can_mount_volumes=False,
        stage="",
    )


def refuse_abilities(spec: Spec) -> None:
    """Raise `BriefError` for a request that no pod can fulfil. Root is refused at its use: E2B always allows it."""
    if spec.volumes:
        raise BriefError("a desk that is a pod cannot have volumes; leave `volumes` out")
    if spec.sterile:
        raise BriefError(
            "a desk that is a pod cannot be sterile: its image is shared with other pods of its node; verify "
            "results on a server with nodes of its own"
        )
    if spec.disk_in != "disk":
        raise BriefError("a desk that is a pod has its files on its node's disk; leave `disk_in` out")
