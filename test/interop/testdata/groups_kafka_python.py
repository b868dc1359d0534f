"""kafka-python's consumer groups, and their administration, at the server argv[1]; exits with 0 if all is well."""
import os, sys, threading, time
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic, OffsetSpec
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import FencedInstanceIdError, NoError, UnknownMemberIdError

at = sys.argv[1]
PARTITIONS, EACH = 6, 50
everything = set(range(PARTITIONS))
admin = KafkaAdminClient(bootstrap_servers=at)


def check(ok, what):
    if not ok:  # Also in a thread, where SystemExit would end only that.
        print(f"failed: {what}", flush=True)
        os._exit(1)


def fill(topic):
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    more(topic)


def more(topic):
    p = KafkaProducer(bootstrap_servers=at, acks="all")
    for f in [p.send(topic, str(i).encode(), partition=i % PARTITIONS) for i in range(PARTITIONS * EACH)]:
        f.get(20)
    p.close()


def consumer(group, *topics, **more):
    return KafkaConsumer(*topics, bootstrap_servers=at, group_id=group, auto_offset_reset="earliest", enable_auto_commit=more.pop("enable_auto_commit", False),
                         session_timeout_ms=6000, heartbeat_interval_ms=100, fetch_max_wait_ms=50, **more)


news = threading.Condition()


def until(what, condition):
    """Waits until the members have brought about what is wanted."""
    with news:
        check(news.wait_for(condition, 60), f"never: {what}")


class Member(ConsumerRebalanceListener):
    """A consumer with a thread that polls until it has read what is due, and leaves when it is told to.

    It commits at once, for its listener may not. It polls without a limit: kafka-python loses its
    assignment when the limit of a poll comes while it joins."""

    def __init__(self, topic, group, due, **more):
        self.c, self.due, self.has, self.seen, self.given, self.taken, self.error, self.ends = consumer(group, **more), due, set(), [], [], [], None, threading.Event()
        self.c.subscribe([topic], listener=self)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def on_partitions_assigned(self, parts):
        with news:
            self.given.append({p.partition for p in parts})
            self.has |= self.given[-1]
            news.notify_all()

    def on_partitions_revoked(self, parts):
        with news:
            if parts:
                self.taken.append({p.partition for p in parts})
                self.has -= self.taken[-1]
            news.notify_all()

    def run(self):
        try:
            while len(self.seen) < self.due:
                read = [(r.partition, r.offset) for rs in self.c.poll(300_000).values() for r in rs]
                self.c.commit()
                with news:
                    self.seen += read
                    news.notify_all()
            self.ends.wait()
        except FencedInstanceIdError as e:
            with news:
                self.error = e
                news.notify_all()
        except BaseException as e:
            check(False, repr(e))
        self.c.close()

    def stop(self):
        self.ends.set()
        self.thread.join(30)
        check(not self.thread.is_alive(), "a consumer does not close")


def describe(group):
    return admin.describe_groups([group])[group]


def offsets(group):
    return {tp.partition: o.offset for tp, o in admin.list_group_offsets({group: None})[group].items()}


def rebalances(assignor, cooperative):
    """A member joins and leaves: partitions are shared, each record is read once, all is committed."""
    topic = group = f"shared-{assignor.name}"
    fill(topic)
    a = Member(topic, group, 2 * PARTITIONS * EACH + PARTITIONS // 2 * EACH, partition_assignment_strategy=[assignor])
    until("the first reads all", lambda: a.has == everything and len(a.seen) == PARTITIONS * EACH)
    b = Member(topic, group, PARTITIONS // 2 * EACH, partition_assignment_strategy=[assignor])
    until("two share", lambda: len(a.has) == len(b.has) == 3 and a.has | b.has == everything)
    revoked = set.union(*a.taken)
    check(revoked == (b.has if cooperative else everything), f"{group}: {revoked} is revoked when {b.has} moves")
    more(topic)
    until("both read", lambda: len(a.seen) + len(b.seen) >= 2 * PARTITIONS * EACH)
    check({p for p, o in b.seen} == b.has and min(o for p, o in b.seen) == EACH, f"{group}: the second reads {b.seen[:3]}")
    d = describe(group)
    check(d["group_state"] == "Stable" and d["protocol_data"] == assignor.name and len(d["members"]) == 2, d)
    b.stop()
    until("the first has all again", lambda: a.has == everything)
    more(topic)
    until("it reads all", lambda: len(a.seen) + len(b.seen) >= 3 * PARTITIONS * EACH)
    a.stop()
    got = sorted(a.seen + b.seen)
    check(got == [(p, o) for p in range(PARTITIONS) for o in range(3 * EACH)], f"{group}: {len(got)} records, {len(set(got))} distinct")
    check(offsets(group) == {p: 3 * EACH for p in everything}, f"{group}: committed {offsets(group)}")
    check(describe(group)["group_state"] == "Empty", describe(group))


def static():
    """A static member's double takes its partitions over, and it is fenced off."""
    topic = group = "static"
    fill(topic)
    a = Member(topic, group, 2 * PARTITIONS * EACH, group_instance_id="one")
    until("the first reads all", lambda: len(a.seen) == PARTITIONS * EACH)
    b = Member(topic, group, PARTITIONS // 2 * EACH, group_instance_id="two")
    until("two share", lambda: len(a.has) == len(b.has) == 3)
    check(sorted(m["group_instance_id"] for m in describe(group)["members"]) == ["one", "two"], describe(group))
    had, changes = set(a.has), len(b.given)
    double = Member(topic, group, PARTITIONS // 2 * EACH, group_instance_id="one")
    until("the double takes over", lambda: double.has == had)
    more(topic)  # kafka-python tells that it was fenced off when it commits.
    until("the first is fenced off", lambda: a.error)
    check(len(b.given) == changes, f"the other saw {b.given}, {b.taken}")
    b.stop()
    double.stop()


def auto_commit():
    fill("auto")
    tps = [TopicPartition("auto", p) for p in everything]
    c = consumer("auto", "auto", enable_auto_commit=True, auto_commit_interval_ms=100, max_poll_records=70)
    read, end = [], time.time() + 60
    while not read and time.time() < end:
        read = [(r.partition, r.offset) for rs in c.poll(60_000).values() for r in rs]
    c.pause(*tps)
    while sum(offsets("auto").values()) != len(read) and time.time() < end:
        c.poll(100)
    check(0 < sum(offsets("auto").values()) == len(read), f"{len(read)} records, committed in the background: {offsets('auto')}")
    c.close()
    c = consumer("auto", "auto")
    while len(read) < PARTITIONS * EACH and time.time() < end:
        read += [(r.partition, r.offset) for rs in c.poll(60_000).values() for r in rs]
    check(len(set(read)) == len(read) == PARTITIONS * EACH, f"{len(read)} records, {len(set(read))} distinct")
    c.close()


def manual():
    fill("manual")
    tp, other = TopicPartition("manual", 0), TopicPartition("manual", 4)
    c = consumer("manual", max_poll_records=10)
    c.assign([tp])
    check(c.committed(tp) is None, "nothing is committed yet")

    def polled():
        end = time.time() + 60
        while time.time() < end:
            for records in c.poll(100).values():
                return [r.offset for r in records]
        check(False, "nothing to poll")

    check(polled() == list(range(10)) and c.position(tp) == 10, f"position {c.position(tp)}")
    c.commit()
    check(c.committed(tp) == 10, c.committed(tp))
    c.commit({tp: OffsetAndMetadata(8, "where I was", -1), other: OffsetAndMetadata(33, "", -1)})
    got = c.committed(tp, metadata=True)
    check((got.offset, got.metadata) == (8, "where I was") and c.committed(other) == 33, got)
    done = []
    c.commit_async({tp: OffsetAndMetadata(9, "", -1)}, callback=lambda o, r: done.append(r))
    end = time.time() + 30
    while not done and time.time() < end:
        c.poll(50)
    check(done and not isinstance(done[0], Exception) and c.committed(tp) == 9, done)
    c.seek(tp, 2)
    check(polled()[0] == 2, "seek")
    c.seek_to_beginning(tp)
    check(polled()[0] == 0, "seek_to_beginning")
    c.seek_to_end(tp)
    check(c.position(tp) == EACH, "seek_to_end")
    c.close()
    c = consumer("manual", max_poll_records=10)
    c.assign([tp])
    check(polled()[0] == 9, "the next one starts at what is committed")
    c.close()


def administration():
    topic = group = "managed"
    fill(topic)
    tps = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    m = Member(topic, group, PARTITIONS * EACH)
    until("all is read", lambda: len(m.seen) == PARTITIONS * EACH)
    move = {tps[0]: OffsetAndMetadata(7, "moved", -1), tps[1]: OffsetAndMetadata(8, "", -1)}
    check(set(admin.alter_group_offsets(group, move).values()) == {UnknownMemberIdError}, "offsets of a group that has members")
    check(admin.delete_groups([group])[group] == "NonEmptyGroupError", "a group that has members is deleted")
    listed = lambda **filters: {g["group_id"]: g for g in admin.list_groups(**filters)}
    check(listed()[group]["group_state"] == "Stable" and listed()[group]["group_type"].lower() == "classic", listed()[group])
    check(group in listed(states_filter=["Stable"]) and group not in listed(states_filter=["Empty"]) and "manual" in listed(states_filter=["Empty"]), "by state")
    m.stop()
    check(set(admin.alter_group_offsets(group, move).values()) == {NoError}, "offsets of an empty group")
    check(offsets(group) == {**{p: EACH for p in everything}, 0: 7, 1: 8}, offsets(group))
    admin.reset_group_offsets(group, {tps[2]: OffsetSpec.EARLIEST, tps[3]: 11})
    check(offsets(group) == {0: 7, 1: 8, 2: 0, 3: 11, 4: EACH, 5: EACH}, offsets(group))
    check(set(admin.delete_group_offsets(group, [tps[5]]).values()) == {NoError}, "delete_group_offsets")
    check(5 not in offsets(group), offsets(group))
    left = EACH - 7 + EACH - 8 + EACH + EACH - 11 + EACH
    m = Member(topic, group, left)
    until("it is read again from there", lambda: len(m.seen) == left)
    m.stop()
    check(admin.delete_groups([group])[group] == "OK", "delete_groups")
    check(group not in listed() and not offsets(group), "a deleted group is there")
    check(admin.delete_groups([group])[group] == "GroupIdNotFoundError", "a group is deleted twice")


rebalances(RangePartitionAssignor, False)
rebalances(CooperativeStickyAssignor, True)
static()
auto_commit()
manual()
administration()
