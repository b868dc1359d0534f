"""confluent-kafka's consumer groups, and their administration, at the server argv[1]; exits with 0 if all is well."""
import os, sys, threading, time
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

boot = {"bootstrap.servers": sys.argv[1]}
admin = AdminClient(boot)
PARTITIONS, EACH = 6, 50
everything = set(range(PARTITIONS))


def check(ok, what):
    if not ok:  # Also in a thread, where SystemExit would end only that.
        print(f"failed: {what}", flush=True)
        os._exit(1)


def fails(name, call):
    try:
        call()
    except KafkaException as e:
        check(e.args[0].name() == name, f"{e.args[0]}, want {name}")
    else:
        check(False, f"no error, want {name}")


def one(futures):
    return next(iter(futures.values())).result(20)


def fill(topic):
    one(admin.create_topics([NewTopic(topic, PARTITIONS, 1)]))
    more(topic)


def more(topic):
    p = Producer(boot)
    for i in range(PARTITIONS * EACH):
        p.produce(topic, partition=i % PARTITIONS, value=str(i))
    check(p.flush(20) == 0, "flush")


def config(group, **more):
    return {**boot, "group.id": group, "auto.offset.reset": "earliest", "session.timeout.ms": 6000, "heartbeat.interval.ms": 100,
            "enable.auto.commit": False, **{k.replace("_", "."): v for k, v in more.items()}}


news = threading.Condition()


def until(what, condition):
    """Waits until the members have brought about what is wanted."""
    with news:
        check(news.wait_for(condition, 60), f"never: {what}")


class Member:
    """A consumer with a thread that polls; it commits what it has read before it gives partitions up."""

    def __init__(self, topic, group, **more):
        self.c, self.has, self.seen, self.given, self.taken, self.errors, self.ends = Consumer(config(group, **more)), set(), [], [], [], [], False
        self.c.subscribe([topic], on_assign=self.assign, on_revoke=self.revoke)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def assign(self, c, parts):
        with news:
            self.given.append({p.partition for p in parts})
            self.has |= self.given[-1]
            news.notify_all()

    def revoke(self, c, parts):
        with news:
            self.taken.append({p.partition for p in parts})
            self.has -= self.taken[-1]
        self.commit()
        with news:
            news.notify_all()

    def commit(self):
        try:
            done = self.c.commit(asynchronous=False)
            check(all(p.error is None for p in done), f"commit: {done}")
        except KafkaException as e:
            check(e.args[0].code() == KafkaError._NO_OFFSET, e)

    def run(self):
        while not self.ends:
            m = self.c.poll(0.05)
            with news:
                if m is not None and m.error():
                    self.errors.append(m.error())
                elif m is not None:
                    self.seen.append((m.partition(), m.offset()))
                news.notify_all()
        if not any(e.code() == KafkaError._FATAL for e in self.errors):
            self.commit()
        self.c.close()

    def stop(self):
        self.ends = True
        self.thread.join(30)
        check(not self.thread.is_alive(), "a consumer does not close")


def describe(group):
    return one(admin.describe_consumer_groups([group]))


def offsets(group, parts=None):
    return {p.partition: p.offset for p in one(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, parts)])).topic_partitions}


def rebalances(strategy, cooperative):
    """A member joins and leaves: partitions are shared, each record is read once, all is committed."""
    topic = group = f"shared-{strategy}"
    fill(topic)
    a = Member(topic, group, partition_assignment_strategy=strategy)
    # Not before the first has read: librdkafka goes on with a partition that is revoked while
    # it asks for its first offset, and hands out records that another member has committed.
    until("the first reads all", lambda: a.has == everything and len(a.seen) == PARTITIONS * EACH)
    b = Member(topic, group, partition_assignment_strategy=strategy)
    until("two share", lambda: len(a.has) == len(b.has) == 3 and a.has | b.has == everything)
    revoked = set.union(*a.taken)
    check(revoked == (b.has if cooperative else everything), f"{strategy}: {revoked} is revoked when {b.has} moves")
    more(topic)
    until("both read", lambda: len(a.seen) + len(b.seen) >= 2 * PARTITIONS * EACH)
    check({p for p, o in b.seen} == b.has and min(o for p, o in b.seen) == EACH, f"{strategy}: the second reads {b.seen[:3]}")
    d = describe(group)
    check(d.state == ConsumerGroupState.STABLE and d.partition_assignor == strategy and d.coordinator.id == 1 and d.type == ConsumerGroupType.CLASSIC, f"{strategy}: {d.state} {d.partition_assignor} {d.type}")
    check([{p.partition for p in m.assignment.topic_partitions} for m in d.members] in ([a.has, b.has], [b.has, a.has]), f"{strategy}: members {[m.assignment.topic_partitions for m in d.members]}")
    check(all(m.host == "/127.0.0.1" and m.client_id == "rdkafka" for m in d.members), "host and client id")
    b.stop()
    until("the first has all again", lambda: a.has == everything)
    more(topic)
    until("it reads all", lambda: len(a.seen) + len(b.seen) >= 3 * PARTITIONS * EACH)
    a.stop()
    got = sorted(a.seen + b.seen)
    check(got == [(p, o) for p in range(PARTITIONS) for o in range(3 * EACH)], f"{strategy}: {len(got)} records, {len(set(got))} distinct")
    check(offsets(group) == {p: 3 * EACH for p in everything}, f"{strategy}: committed {offsets(group)}")
    check(describe(group).state == ConsumerGroupState.EMPTY, f"{strategy}: {describe(group).state}")


def static():
    """A static member that comes back within its session takes its partitions and disturbs nobody; its double is fenced off."""
    topic = group = "static"
    fill(topic)
    a = Member(topic, group, group_instance_id="one")
    until("the first reads all", lambda: len(a.seen) == PARTITIONS * EACH)
    b = Member(topic, group, group_instance_id="two")
    until("two share", lambda: len(a.has) == len(b.has) == 3)
    members = {m.group_instance_id: m for m in describe(group).members}
    check(sorted(members) == ["one", "two"], members)
    had, changes = set(a.has), len(b.given)
    a.stop()
    a = Member(topic, group, group_instance_id="one")
    until("it has what it had", lambda: a.has == had)
    again = {m.group_instance_id: m for m in describe(group).members}
    check(again["one"].member_id != members["one"].member_id and again["two"].member_id == members["two"].member_id, again)
    check(len(b.given) == changes and not b.taken[1:], f"the other saw {b.given}, {b.taken}")
    double = Member(topic, group, group_instance_id="one")
    until("the double takes over", lambda: double.has == had)
    until("the first is fenced off", lambda: any(e.code() == KafkaError._FATAL for e in a.errors))
    for m in (a, b, double):
        m.stop()


def auto_commit():
    """What was polled is committed in the background, and when the consumer closes; the next one goes on there."""
    fill("auto")
    parts = [TopicPartition("auto", p) for p in everything]
    auto = config("auto", enable_auto_commit=True, auto_commit_interval_ms=100, on_commit=lambda err, ps: commits.append(err))
    commits = []
    c = Consumer({k.replace("on.commit", "on_commit"): v for k, v in auto.items()})
    c.subscribe(["auto"])
    read, end = [], time.time() + 60
    while (len(read) < 70 or not commits) and time.time() < end:
        m = c.poll(0.1)
        if m is not None and len(read) < 70:
            read.append((m.partition(), m.offset()))
            if len(read) == 70:
                c.pause(parts)
    check(commits and commits[0] is None, f"commits in the background: {commits}")
    c.close()
    check(sum(o for o in offsets("auto", parts).values() if o > 0) == 70, f"committed {offsets('auto', parts)}")
    c = Consumer(config("auto"))
    c.subscribe(["auto"])
    while len(read) < PARTITIONS * EACH and time.time() < end:
        m = c.poll(0.1)
        if m is not None:
            read.append((m.partition(), m.offset()))
    check(len(set(read)) == len(read) == PARTITIONS * EACH, f"{len(read)} records, {len(set(read))} distinct")
    c.close()


def manual():
    """Commits of every kind, committed, position, seek, pause and resume."""
    fill("manual")
    tp = TopicPartition("manual", 0)
    done = []
    c = Consumer({**config("manual", enable_auto_offset_store=False), "on_commit": lambda err, ps: done.append((err, ps))})
    check(c.committed([tp], timeout=20)[0].offset == -1001, "nothing is committed yet")
    c.assign([tp])

    def polled(n):
        got = []
        while len(got) < n:
            m = c.poll(20)
            check(m is not None and m.error() is None, f"poll: {m and m.error()}")
            got.append(m)
        return got

    first = polled(10)
    check([m.offset() for m in first] == list(range(10)), "the first ten")
    check(c.position([tp])[0].offset == 10, f"position {c.position([tp])}")
    c.commit(message=first[4], asynchronous=False)
    check(c.committed([tp], timeout=20)[0].offset == 5, "commit of a message")
    c.store_offsets(message=first[6])
    c.commit(asynchronous=False)
    check(c.committed([tp], timeout=20)[0].offset == 7, "commit of what is stored")
    c.commit(offsets=[TopicPartition("manual", 0, 8, "where I was"), TopicPartition("manual", 3, 33)], asynchronous=False)
    got = c.committed([tp, TopicPartition("manual", 3), TopicPartition("manual", 4)], timeout=20)
    check([(p.offset, p.metadata) for p in got] == [(8, "where I was"), (33, None), (-1001, None)], got)
    done.clear()
    c.commit(offsets=[TopicPartition("manual", 0, 9)], asynchronous=True)
    end = time.time() + 30
    while not done and time.time() < end:
        c.poll(0.1)
    check(done and done[0][0] is None and done[0][1][0].offset == 9, f"an asynchronous commit: {done}")
    c.seek(TopicPartition("manual", 0, 2))
    check(polled(1)[0].offset() == 2, "seek")
    c.pause([tp])
    c.resume([tp])
    check(polled(1)[0].offset() == 3, "resume")
    c.assign([TopicPartition("manual", 0)])
    check(polled(1)[0].offset() == 9, "a new assignment starts at what is committed")
    # librdkafka fails as a whole; the partition that exists is committed.
    fails("UNKNOWN_TOPIC_OR_PART", lambda: c.commit(offsets=[TopicPartition("missing", 0, 1), TopicPartition("manual", 0, 11)], asynchronous=False))
    # offset.metadata.max.bytes is 4096.
    fails("OFFSET_METADATA_TOO_LARGE", lambda: c.commit(offsets=[TopicPartition("manual", 0, 12, "m" * 4097)], asynchronous=False))
    c.close()
    check(offsets("manual", [tp]) == {0: 11}, offsets("manual", [tp]))


def administration():
    topic = group = "managed"
    fill(topic)
    m = Member(topic, group)
    until("all is read", lambda: len(m.seen) == PARTITIONS * EACH)
    move = [TopicPartition(topic, 0, 7, "moved"), TopicPartition(topic, 1, 8)]
    alter = lambda: one(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, move)]))
    check([p.error.name() for p in alter().topic_partitions] == ["UNKNOWN_MEMBER_ID"] * 2, "offsets of a group that has members")
    fails("NON_EMPTY_GROUP", lambda: one(admin.delete_consumer_groups([group])))
    d = one(admin.describe_consumer_groups([group], include_authorized_operations=True))
    check(d.is_simple_consumer_group is False and len(d.members) == 1 and d.authorized_operations, f"{d.members} {d.authorized_operations}")

    def listed(**filters):
        r = admin.list_consumer_groups(**filters).result(20)
        check(not r.errors, r.errors)
        return {g.group_id: (g.state, g.type, g.is_simple_consumer_group) for g in r.valid}

    check(listed()[group] == (ConsumerGroupState.STABLE, ConsumerGroupType.CLASSIC, False), listed())
    check(listed()["manual"] == (ConsumerGroupState.EMPTY, ConsumerGroupType.CLASSIC, True), listed())
    stable = listed(states={ConsumerGroupState.STABLE})
    check(group in stable and "manual" not in stable, f"only what is stable: {stable}")
    check(group in listed(types={ConsumerGroupType.CLASSIC}) and not listed(types={ConsumerGroupType.CONSUMER}), "by type")
    check(group in [g.id for g in admin.list_groups(timeout=20)], "list_groups")
    m.stop()
    check([p.error for p in alter().topic_partitions] == [None] * 2, "offsets of an empty group")
    check(offsets(group) == {**{p: EACH for p in everything}, 0: 7, 1: 8}, offsets(group))
    check(offsets(group, [TopicPartition(topic, 1), TopicPartition("nowhere", 9)]) == {1: 8, 9: -1001}, "of some partitions")
    m = Member(topic, group)
    until("it is read again from there", lambda: len(m.seen) == EACH - 7 + EACH - 8)
    check(min(o for p, o in m.seen if p == 0) == 7, m.seen[:1])
    m.stop()
    one(admin.delete_consumer_groups([group]))
    check(group not in listed(), "a deleted group is listed")
    check(describe(group).state == ConsumerGroupState.DEAD, describe(group).state)
    check(offsets(group, [TopicPartition(topic, 0)]) == {0: -1001}, "offsets of a deleted group")
    fails("GROUP_ID_NOT_FOUND", lambda: one(admin.delete_consumer_groups([group])))


rebalances("range", False)
rebalances("roundrobin", False)
rebalances("cooperative-sticky", True)
static()
auto_commit()
manual()
administration()
