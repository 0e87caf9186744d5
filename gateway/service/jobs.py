"""Stores jobs and runs them, and accepts their requests again after their process has ended."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import orjson

from dataplane.body_weight import weigh_body
from dataplane.sharing.work_pool import run_in_pool
from gateway.config.settings import Settings
from gateway.errors import CredentialsNotStored, EventLogFull, TooManyJobs
from gateway.http.auth import Principal
from gateway.http.guard import DrainState
from gateway.jobs.runner import JobRunner
from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.managed_context import fill_compaction_threshold
from gateway.planning.resolver import Target
from gateway.replies.endpoints import Endpoint, ReplyIdentity, ResponseForm
from gateway.service.admission import Admission, find_refusal
from gateway.service.intake import InputFiles
from gateway.service.interrupted_jobs import load_interrupted_job
from gateway.service.run import Run
from gateway.service.run_factory import RunFactory
from gateway.service.storage import StorageOptions, StorageParts, echo_as, fit_to_target
from gateway.state.store import Store
from gateway.state.values import Job, NewResponse
from gateway.upstreams.affinity import restore_affinity_key
from providers.new_id import new_id
from translation.representation.json_types import Json

_MB: Final = 1024 * 1024


def _weigh(body: Json) -> int:
    return weigh_body(orjson.dumps(body)).weight


class StoredJobs:
    """The jobs of one server process, within the limits of each owner."""

    def __init__(self, store: Store, settings: Settings, drain: DrainState) -> None:
        self.store: Final = store
        self.runner: Final = JobRunner(
            store, settings.background, drain, worker=new_id("worker"), drain_s=settings.server.drain_s
        )
        self._limits = settings.limits

    async def submit(self, run: Run, new: NewResponse) -> None:
        """Stores the new response of a run as a job, and runs it.

        Raises TooManyJobs or EventLogFull if its owner has reached a limit, and what `JobRunner.submit_job` raises.
        """
        usage = await self.store.owner_data.measure_owner(new.owner)
        limits = run.request.principal.limits or self._limits
        if usage.jobs >= limits.background_jobs:
            raise TooManyJobs(limits.background_jobs)
        if new.logged and usage.log_bytes >= limits.event_log_mb * _MB:
            raise EventLogFull(limits.event_log_mb)
        await self.runner.submit_job(new, run)


class JobIntake:
    """Accepts the requests of stored jobs again. `endpoints` are those whose replies may be jobs, by dialect."""

    def __init__(
        self,
        admission: Admission,
        runs: RunFactory,
        parts: StorageParts,
        endpoints: Mapping[str, Endpoint],
        files: InputFiles,
    ) -> None:
        self._admission = admission
        self._runs = runs
        self._parts = parts
        self._files = files
        self._endpoints = endpoints

    async def resume_job(self, job: Job) -> Run:
        """Accepts the request of a stored job again. Its response keeps its id and its time of creation.

        If the job has sent output, its response continues after it. Raises InvalidRequest, UnknownModel,
        StoreUnavailable, JobNotResumable, and CredentialsNotStored if its tools had credentials.
        """
        parts, request = self._parts, job.request
        body, locked_servers = parts.credentials.load_request(job)
        endpoint = self._endpoints[request["dialect"]]
        interrupted = await load_interrupted_job(parts.store, job)
        if interrupted is not None:
            body = interrupted.extend_input(endpoint, body)
        route = self._admission.resolve(endpoint, request["asked"]["model"], request["models"], owner=job.owner)
        principal = Principal(job.owner, tuple(request["models"]), tuple(request.get("mcp_servers", ["*"])))
        echoed_facts = endpoint.request.read_facts(request["shown"])
        reports_events, takes_input = bool(request.get("tool_events")), bool(request.get("elicitation"))
        tools = replace(echoed_facts.tools, reports_events=reports_events, takes_input=takes_input)
        echoed_facts = replace(echoed_facts, tools=tools)
        approvals = None
        if fields := request.get("approvals"):
            approvals = parts.approvals.restore(job.owner, job.response_id, fields)
        admitted = AdmittedRequest(
            endpoint,
            request["shown"],
            echoed_facts,
            route,
            route.target,
            principal,
            ReplyIdentity(job.response_id, request["created"], route.name, request.get("prompt")),
            request["strict"],
        )
        facts = endpoint.request.read_facts(body)
        planned = replace(
            admitted,
            body=body,
            facts=facts,
            history_count=request["earlier"],
            history_tokens=request.get("tokens"),
            tool_host=await self._admission.open_tool_host(endpoint, facts, route, principal),
            approvals=approvals,
            in_background=echoed_facts.state.in_background,
            refusal=find_refusal(endpoint.request.validate, endpoint.request, body),
            affinity_key=restore_affinity_key(key) if (key := request.get("affinity")) else None,
        )
        planned = await fill_compaction_threshold(planned)
        admitted = replace(admitted, route=planned.route, target=planned.target)
        form = endpoint.storage
        if not isinstance(form, ResponseForm):
            raise TypeError("only responses are jobs")
        options = StorageOptions(stored=True, background=echoed_facts.state.in_background, logged=True)

        async def build_run(planned: AdmittedRequest, weight: int) -> Run:
            def replan(target: Target) -> AdmittedRequest:
                body, facts = fit_to_target(form, options, target, planned.body, planned.facts)
                return replace(planned, body=body, facts=facts, target=target)

            fitted = planned if planned.route.sharing is None else replan(planned.target)
            build = partial(self._runs.build_run, admitted, echo_as(form, options), planned=fitted, replan=replan)
            return await self._runs.pool.call_weighed(
                weight, partial(build, is_stored=True, is_job=True, weight=weight)
            )

        run = await self._files.plan(planned, await run_in_pool(_weigh, body), build_run)
        if run.loop_io is not None:
            run.loop_io.journal = parts.journals.make_journal(job.owner, job.response_id)
            run.loop_io.locked_servers = locked_servers
        elif locked_servers:
            raise CredentialsNotStored
        if interrupted is not None:
            interrupted.continue_in(run)
        return run
