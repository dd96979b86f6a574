"""Carries out one build: reuses cached layers, makes the missing ones, tests the result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from pathlib import Path

import anyio

from hotdesk.api.e2b.builds import names, registry, uploads
from hotdesk.api.e2b.builds.build_log import BuildLog
from hotdesk.api.e2b.builds.inside import START_DIGEST, BuildDesk, StepError
from hotdesk.api.e2b.builds.orders import BuildOrder
from hotdesk.api.e2b.builds.plan import BuildPlan, PlannedLayer, hash_key, merge_tail, plan_build
from hotdesk.api.e2b.builds.records import BuildContext, BuildRecord, TenantTemplates
from hotdesk.api.e2b.control.snapshots import TenantSnapshots
from hotdesk.api.e2b.network import find_scope
from hotdesk.api.e2b.responses import E2bError, log
from hotdesk.api.e2b.sandboxes import Sandboxes
from hotdesk.api.launch.launcher_client import LauncherClient
from hotdesk.api.quotas import QuotaError
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.dataclass import dataclass
from hotdesk.desk.image import image
from hotdesk.desk.image.image import Image
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import BriefError, DeskError, HotdeskError, ImageError

MAX_BUILD_S = 3600.0
_MAX_IMAGE_LAYERS = 60
"""Layers of a template's image: snapshots of its sandboxes add more, and the maximum is 64."""
_BURN_TIMEOUT_S = 30.0


@dataclass(slots=True)
class TemplateBuildRun:
    """One build, from its request to an image."""

    store: TenantTemplates
    launcher: LauncherClient
    snapshots: TenantSnapshots
    sandboxes: Sandboxes
    template: str
    record: BuildRecord
    order: BuildOrder
    by: str
    log: BuildLog = field(default_factory=BuildLog)
    reason: StepError | None = None

    async def run(self, places: anyio.CapacityLimiter) -> None:
        """Build, and record the outcome; any failure is an outcome of the build."""
        try:
            async with places:
                self.note(replace(self.record, status="building"))
                with anyio.fail_after(MAX_BUILD_S):
                    picture, context = await self.build()
            self.log.write("Build finished")
            self.note(replace(self.record, status="ready", image=picture.name, context=context))
        except Exception as e:  # noqa: BLE001 - the rim: a build that fails says so, and the server goes on
            self.fail(e)
        await self.store.write()

    def note(self, record: BuildRecord) -> None:
        self.record = record
        self.store.change(self.template, record)

    def fail(self, error: Exception) -> None:
        self.reason = _as_step_error(error)
        self.log.write(f"Build failed: {self.reason}", "error", self.reason.step)
        self.note(replace(self.record, status="error", message=str(self.reason), step=self.reason.step))

    async def build(self) -> tuple[Image, BuildContext]:
        base, context = await self.find_base()
        plan = plan_build(self.order, hash_key(base.digest, base.python), context)
        picture, todo = self.find_cached(base, plan)
        for layer in merge_tail(todo, _MAX_IMAGE_LAYERS - 1 - len(picture.layers)):
            picture = await self.make_layer(picture, layer)
        return await self.finalize(picture, plan, context), plan.context

    # -- finding base images and cached layers ------------------------------------------------------------------------

    async def find_base(self) -> tuple[Image, BuildContext]:
        self.log.write(f"[base] FROM {self.order.from_image or self.order.from_template}", step="base")
        if self.order.from_template:
            return self.find_template(self.order.from_template)
        reference = self.order.from_image or ""
        for name in names.list_local_images(reference, self.sandboxes.serving.base_images):
            if (found := self.look_up(name)) is not None:
                return found, BuildContext()
        remote = registry.find_registry(reference, self.sandboxes.serving.registries)
        if remote is not None:
            return await registry.pull(self, remote), BuildContext()
        raise StepError("base", names.import_advice(reference))

    def find_template(self, reference: str) -> tuple[Image, BuildContext]:
        build = self.store.find_build(reference)
        if build is not None and (found := self.look_up(build.image)) is not None:
            return found, build.context
        try:
            found = self.look_up(self.snapshots.find_image(self.store.tenant, reference))
        except E2bError:
            found = None
        if found is None:
            raise StepError("base", f"template '{reference[:100]}' does not exist, or has no finished build")
        snapshot = self.snapshots.find(self.store.tenant, reference)
        if snapshot is None:
            return found, BuildContext()
        return found, BuildContext(snapshot.user or "user", snapshot.workdir)

    def look_up(self, name: str) -> Image | None:
        try:
            return image.find(self.store.tenant.settings.images, name)
        except (BriefError, ImageError):
            return None

    def find_cached(self, base: Image, plan: BuildPlan) -> tuple[Image, Sequence[PlannedLayer]]:
        usable = next((at for at, layer in enumerate(plan.layers) if layer.forced), len(plan.layers))
        for at in range(usable, 0, -1):
            layer = plan.layers[at - 1]
            if (picture := self.use_cached(layer.key)) is not None:
                for each in plan.layers[:at]:
                    self.announce(each, cached=True)
                return picture, plan.layers[at:]
        return base, plan.layers

    def use_cached(self, key: str) -> Image | None:
        layer = self.store.layers.get(key)
        if layer is None:
            return None
        if (picture := self.look_up(layer.image)) is None:
            del self.store.layers[key]
            return None
        self.store.use(key)
        return picture

    def announce(self, layer: PlannedLayer, *, cached: bool = False) -> None:
        total = len(self.order.steps)
        for each in layer.steps:
            words = " ".join(each.step.args)[:300]
            line = f"[builder {each.number}/{total}] {each.step.type} {words}"
            self.log.write(f"CACHED {line}" if cached else line, step=str(each.number))

    # -- making layers ------------------------------------------------------------------------------------------------

    async def make_layer(self, below: Image, layer: PlannedLayer) -> Image:
        """Carry out the steps of a layer in a desk of an image; return the image with their changes."""
        if not layer.acts:
            self.announce(layer)
            return below
        last = str(layer.steps[-1].number)
        async with self.open(below, last) as inside:
            for each in layer.steps:
                self.announce(replace(layer, steps=(each,)))
                if each.acts:
                    await inside.carry_out(each, self.get_step_archive(each.step.files_hash, str(each.number)))
            return await self.save(inside.desk, layer.key, below)

    def get_step_archive(self, digest: str | None, number: str) -> Path | None:
        """Return the archive of a COPY step; `None` for other steps."""
        if digest is None:
            return None
        found = uploads.find_archive(self.store.tenant, digest)
        if found is None:
            raise StepError(number, "the files of this step were not uploaded, or were deleted; start the build again")
        return found

    async def save(self, desk: Desk, key: str, below: Image) -> Image:
        layer = self.store.expect(key)
        await self.store.write()
        await desk.save(layer.image)
        picture = image.find(self.store.tenant.settings.images, layer.image)
        added = max(0, picture.size - below.size)
        self.store.add(replace(layer, size=added))
        self.log.write(f"layer saved, {added / 1e6:.1f} MB", "debug")
        return picture

    async def import_archive(self, key: str, place: Path) -> Image:
        layer = self.store.expect(key)
        await self.store.write()
        try:
            await self.launcher.import_image(self.store.tenant.name, layer.image, place)
        except HotdeskError as e:
            raise registry.describe_import(e) from None
        picture = image.find(self.store.tenant.settings.images, layer.image)
        self.store.add(replace(layer, size=picture.size))
        return picture

    async def finalize(self, picture: Image, plan: BuildPlan, before: BuildContext) -> Image:
        starts = plan.context.start or plan.context.ready
        forced = any(layer.forced for layer in plan.layers) or bool(self.order.force)
        if starts and (plan.context != before or self.order.start_cmd or self.order.ready_cmd):
            key = hash_key(plan.final_key, START_DIGEST)
            found = None if forced else self.use_cached(key)
            if found is None:
                async with self.open(picture, "finalize") as inside:
                    await inside.install_start(plan.context)
                    found = await self.save(inside.desk, key, picture)
            picture = found
        await self.prove(picture, plan.context)
        return picture

    async def prove(self, picture: Image, context: BuildContext) -> None:
        """Open a desk of an image that was built here and run its start command, unless that was done before."""
        key = next((each.key for each in self.store.layers.values() if each.image == picture.name), None)
        if key is None or self.store.layers[key].proven:
            return
        starts = bool(context.start or context.ready)
        async with self.open(picture, "finalize", None if starts else CLOSED) as inside:
            if starts:
                await inside.try_start()
        self.store.use(key, proven=True)

    @asynccontextmanager
    async def open(self, picture: Image, step: str, scope: Scope | None = None) -> AsyncIterator[BuildDesk]:
        """Open a desk of an image, within the tenant's quota, and burn it at the end of the block."""
        host = self.store.tenant.host
        spec = host.route(self.make_spec(picture.name))
        try:
            desk = await host.open(spec, scope or await self.find_scope())
        except QuotaError as e:
            raise StepError(step, str(e)) from None
        self.log.write("desk opened", "debug", step)
        try:
            yield BuildDesk(desk, picture.python, self.log)
        except DeskError as e:
            raise StepError(step, f"the desk that ran this build step failed: {e}") from e
        finally:
            with anyio.move_on_after(_BURN_TIMEOUT_S, shield=True):
                await host.burn(desk.id)

    async def find_scope(self) -> Scope:
        """Return the egress rules of steps: those the operator set for builds, and none that the template names."""
        serving = self.sandboxes.serving
        if serving.egress_of_builds == serving.egress:
            return self.sandboxes.defaults.scope
        return await find_scope(replace(serving, egress=serving.egress_of_builds))

    def make_spec(self, name: str) -> Spec:
        """Return the spec of the desks for steps: as large as the template's sandboxes."""
        usual = self.sandboxes.make_spec(name, {})
        return replace(
            usual,
            cpus=float(self.record.cpus) or usual.cpus,
            memory=self.record.memory or usual.memory,
            deadline=MAX_BUILD_S,
            idle=MAX_BUILD_S,
            by=self.by,
        )


def _as_step_error(error: Exception) -> StepError:
    """Return a failure as the template's author can act on it; what only the operator can fix is logged."""
    match error:
        case StepError():
            return error
        case TimeoutError():
            return StepError("", f"the build exceeded its time limit of {MAX_BUILD_S / 60:.0f} minutes")
        case E2bError():
            return StepError("", str(error))
        case ImageError():
            return StepError("", f"the files that the build made could not be saved: {error}")
    log(error)
    kind = error.code if isinstance(error, HotdeskError) else "internal"
    return StepError("", f"internal error ({kind}); the server's operator can find the reason in the server's log")
