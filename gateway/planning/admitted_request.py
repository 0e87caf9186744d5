"""The value that a request travels in from its admission to its plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from gateway.http.auth import Principal
from gateway.planning.resolver import Route, Target
from gateway.replies.endpoints import Endpoint, ReplyIdentity
from gateway.state.values import ThreadTurn
from gateway.tools.approvals import ResponseApprovals
from gateway.tools.host import ToolHost
from gateway.upstreams.affinity import AffinityKey
from translation.errors import InvalidRequest
from translation.lowering.input_files import FileContent
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.request_facts import RequestFacts

NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
"""The `param_names` of a request that was not adapted."""


class ThreadRun(NamedTuple):
    """A request as the next run of a thread. Its response gets the id `response_id`, which is known before it runs."""

    response_id: str
    history: Sequence[Item]
    turn: ThreadTurn


@dataclass(slots=True, eq=False)
class AdmittedRequest:
    """A valid request and its target.

    Admission makes it of what the client sent. A request that continues others has a second one with the body for the
    upstream, whose input begins with the history. Every other request is planned as it was admitted. Nobody changes a
    request that others have.
    """

    endpoint: Endpoint
    body: Json
    """The body in the endpoint's dialect, with the request defaults of the model. Only functions of the endpoint read
    it."""
    facts: RequestFacts
    """The facts of this body."""
    route: Route
    target: Target
    """The target that the request is planned for: at first the route's first choice."""
    principal: Principal
    identity: ReplyIdentity
    """The id of the reply, and when and for which model it was requested."""
    client_is_strict: bool = False
    """Whether the client wants a request with losses refused."""
    param_names: Mapping[str, str] = field(default_factory=dict)
    """Maps parameters of `body` to the parameters by which the client set them, where the names differ."""
    losses: Sequence[Loss] = ()
    """The losses from before the request was planned, in the client's parameter names."""
    thread: ThreadRun | None = None
    """The thread that the request continues, whose items are its history; None if the request names its history."""
    hides_thinking: bool = False
    """Whether only a default of the model requests thinking, so that the client does not expect any."""
    history_count: int | None = None
    """The number of history items that the input begins with; None if the input is the client's own."""
    history_tokens: int | None = None
    """The number of tokens of that history; None if it is not known."""
    tool_host: ToolHost | None = None
    """The host of the request's tools that its upstream does not run; None if there are none."""
    approvals: ResponseApprovals | None = None
    """The approvals of calls of these tools; None if no call can need one."""
    approval_refusal: InvalidRequest | None = None
    """Why the gateway does not take the approvals in the input. An upstream that runs the tools itself may have asked
    for them."""
    in_background: bool = False
    """Whether no client waits for the reply."""
    refusal: InvalidRequest | None = None
    """Why the body is not valid to any upstream but one that is sent it as it is; None for a valid body."""

    files: Mapping[str, FileContent] | None = None
    """The contents of the files that the request names; None if ids of files are left as they are."""
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    """The headers of the client, by their names in lower case, for keys by which turns are shared."""
    chain_root: str | None = None
    """What all responses of the chain that the request continues have in common; None if it continues none."""
    affinity_key: AffinityKey | None = None
    """The key by which its turns were shared, if it is the request of a job that another process had begun."""

    def with_target(self, target: Target) -> "AdmittedRequest":
        """Returns the request for another target."""
        # Turns that are shared are mostly planned for another target than the first.
        request = AdmittedRequest(*list_values(self))
        request.target = target
        return request

    @property
    def loaded_files(self) -> Mapping[str, FileContent]:
        """The contents of the files that the request names; none if ids of files are left as they are."""
        return self.files or {}

    @property
    def owner(self) -> str:
        """The name that stored objects of the request belong to."""
        return self.principal.owner

    @property
    def is_strict(self) -> bool:
        """Whether the client or the model's configuration wants a request with losses refused."""
        return self.client_is_strict or self.route.strict

    def rename_losses(self, losses: Sequence[Loss]) -> Sequence[Loss]:
        """Returns the plan's losses in the client's parameter names, followed by the losses from before the plan."""
        if not (self.param_names or self.losses):
            return losses
        return [*(loss._replace(param=self.param_names.get(loss.param, loss.param)) for loss in losses), *self.losses]


list_values: Final = attrgetter(*(each.name for each in fields(AdmittedRequest)))
"""Returns the values of a request, of which another one can be made: `dataclasses.replace` takes five times as long."""
