"""What applications do: publish at a pace, subscribe, read at a pace, stop."""

from __future__ import annotations

from collections import Counter, deque
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from gapless.delivery.port import Accepted, Confirmed, Gap, Published, Refused, Unknown
from gapless.filters import Interest
from gapless.model.batch import Batch, Rows
from gapless.model.columns import batch_of_rows
from gapless.model.types import EPOCH, Attributes, Source
from gapless.sim.scenario import PublisherPlan, SubscriberPlan
from gapless.sim.world import MILLISECOND

if TYPE_CHECKING:
    from gapless.sim.hosts import ClientHost, Offers

OFFERS_MAX = 5  # of one batch, before the application leaves it at that
NOW = "@now"  # among the values of an attribute: the time of publishing


class Publisher:
    """Publishes batch after batch, over the lives of its process."""

    def __init__(self, plan: PublisherPlan, host: ClientHost, offers: Offers) -> None:
        self.plan = plan
        self.host = host
        self.offers = offers
        self.random = host.world.random(f"publisher/{plan.client}/{plan.space}/{plan.name}")
        self.left = plan.batches
        self.source = Source(plan.name, 0)
        self.seq = 1
        self.under_way: dict[int, Batch] = {}  # by first seq, kept to be offered again
        self.again: list[Batch] = []
        self.offered: Counter[int] = Counter()  # by first seq
        self.fenced = False
        self.ticking = False

    def begin(self) -> None:
        """The process has started."""
        self.seq = 1
        self.under_way.clear()
        self.again.clear()
        self.offered.clear()
        self.fenced = False
        self.source = Source(self.plan.name, 0)
        wait = self.plan.start_ms * MILLISECOND - self.host.world.now
        self.ticking = True
        self.host.later(max(wait, 0), self.tick)

    def stop(self) -> None:
        """Publish nothing more."""
        self.left = 0
        self.again.clear()

    def tick(self) -> None:
        """Hand in what comes next, if the library has room."""
        host, plan = self.host, self.plan
        self.ticking = False
        if self.fenced or not (self.left or self.again):
            return
        if not self.source.incarnation:
            incarnation = self.offers.next_incarnation(plan.space, plan.name)
            self.source = Source(plan.name, incarnation)
        if host.leaf(plan.space).queued() > plan.queue_bytes:
            host.world.count("situation:publisher-held-back")
        else:
            batch = self._next()
            if plan.retry:
                self.under_way[batch.first] = batch
                self.offered[batch.first] += 1
            host.publish(plan.space, batch)
        self._tick_later()

    def _tick_later(self) -> None:
        if not self.ticking and (self.left or self.again):
            self.ticking = True
            self.host.later(self.plan.every_ms * MILLISECOND, self.tick)

    def _next(self) -> Batch:
        if self.again:
            return self.again.pop(0)
        self.left -= 1
        random, plan = self.random, self.plan
        rows = random.randint(1, plan.rows)
        batch = batch_of_rows(
            self.source,
            self.seq,
            [self._attributes() for _ in range(rows)],
            [random.randbytes(random.randint(0, plan.body_bytes)) for _ in range(rows)],
        )
        self.seq += rows + (random.randint(1, 3) if random.random() < plan.skips else 0)
        return batch

    def _attributes(self) -> Attributes:
        random, plan = self.random, self.plan
        drawn: Attributes = {}
        for name, values in plan.attributes.items():
            if plan.absent and random.random() < plan.absent:
                continue
            value = values[random.randrange(len(values))]
            drawn[name] = EPOCH + timedelta(microseconds=self.host.stamp().wall // 1000) if value == NOW else value
        return drawn

    def answered(self, request: Published, outcome: Accepted | Refused | Unknown | Confirmed) -> None:
        """The library tells what became of a batch."""
        if request.source != self.source:
            return
        batch = self.under_way.pop(request.first, None)
        if isinstance(outcome, Refused):
            self.fenced = outcome.code == "Fenced"
        elif isinstance(outcome, Unknown) and batch is not None and self.offered[batch.first] < OFFERS_MAX:
            self.again.append(batch)
            self._tick_later()


class Handout:
    """A delivery, until every subscription in it has taken its rows over."""

    __slots__ = ("places", "space", "token")

    def __init__(self, space: str, token: int, places: int) -> None:
        self.space = space
        self.token = token
        self.places = places

    def release(self, host: ClientHost) -> None:
        """One subscription is through with it."""
        self.places -= 1
        if self.places == 0:
            host.taken(self.space, self.token)


class Parcel(NamedTuple):
    """Rows of a batch for one subscription."""

    batch: Batch
    rows: Rows | None
    handout: Handout


class Subscriber:
    """One subscription of the application, again in every life of its process."""

    def __init__(self, plan: SubscriberPlan, host: ClientHost, interest: Interest) -> None:
        self.plan = plan
        self.host = host
        self.interest = interest
        self.name = plan.name
        self.number = 0
        self.queue: deque[Parcel | Gap] = deque()
        self.held: Parcel | None = None  # handed out, and not yet taken over
        self.busy = False
        self.over = True

    def begin(self) -> None:
        """The process has started: subscribe when it is time."""
        self.queue.clear()
        self.held = None
        self.busy = False
        self.over = True
        self.name = self.plan.name if self.host.life == 1 else f"{self.plan.name}~{self.host.life}"
        now = self.host.world.now
        if self.plan.stop_ms and self.plan.stop_ms * MILLISECOND <= now:
            return
        self.host.later(max(self.plan.start_ms * MILLISECOND - now, 0), self.subscribe)
        if self.plan.stop_ms:
            self.host.later(self.plan.stop_ms * MILLISECOND - now, self.stop)

    def subscribe(self) -> None:
        """Ask for it now."""
        if not self.host.closing:
            self.over = False
            self.number = self.host.subscribe(self, self.interest)

    def stop(self) -> None:
        """Want no more of it; what waits unread is thrown away."""
        if self.over:
            return
        self.over = True
        self._take_over()
        while self.queue:
            item = self.queue.popleft()
            if isinstance(item, Parcel):
                item.handout.release(self.host)
        self.host.unsubscribe(self)

    def put(self, batch: Batch, rows: Rows | None, handout: Handout) -> None:
        """Publications have arrived."""
        if self.over:
            handout.release(self.host)
            return
        self.queue.append(Parcel(batch, rows, handout))
        self._wake(0)

    def put_gap(self, gap: Gap) -> None:
        """Publications are missing at this place."""
        if not self.over:
            self.queue.append(gap)
            self._wake(0)

    def go_on(self) -> None:
        """The application reads again."""
        self._wake(0)

    def _wake(self, pace_ms: float) -> None:
        if not self.busy and self.host.reading:
            self.busy = True
            self.host.later(int(pace_ms * MILLISECOND), self.ask)

    def ask(self) -> None:
        """The application asks for the next: what it had is its own now."""
        self.busy = False
        if self.over or not self.host.reading:
            return
        self._take_over()
        while self.queue:
            item = self.queue.popleft()
            if isinstance(item, Parcel):
                self.held = item
                self.host.hand_over(self, item.batch, item.rows)
                self._wake(self.plan.pace_ms)
                return
            self.host.gap(self, item)

    def _take_over(self) -> None:
        held, self.held = self.held, None
        if held is not None:
            host = self.host
            host.journal.acknowledge(self.plan.space, self.name, held.batch, held.rows, host.stamp())
            held.handout.release(host)
