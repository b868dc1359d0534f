"""confluent-kafka (librdkafka) against the server at argv[1]; exits with 0 if all is well."""
import sys, time
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition, TIMESTAMP_CREATE_TIME
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType

boot = {"bootstrap.servers": sys.argv[1]}
admin = AdminClient(boot)
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
now = int(time.time() * 1000) - 100_000


def wait(futures):
    return {k: f.result(20) for k, f in futures.items()}


def check(ok, what):
    if not ok:
        sys.exit(f"failed: {what}")


wait(admin.create_topics([NewTopic("py", 5, 1, config={"retention.ms": "7200000"}), NewTopic("grows", 1, 1)]))
try:
    wait(admin.create_topics([NewTopic("py", 1, 1)]))
    check(False, "a topic can be created twice")
except KafkaException as e:
    check(e.args[0].name() == "TOPIC_ALREADY_EXISTS", e)
wait(admin.create_partitions([NewPartitions("grows", 3)]))

for partition, codec in enumerate(CODECS):
    delivered = []
    p = Producer({**boot, "compression.type": codec, "enable.idempotence": True, "linger.ms": 20})
    for i in range(200):
        p.produce("py", partition=partition, key=None if i % 5 == 0 else f"k{i}", value=None if i % 7 == 0 else f"value-{i}" * 5,
                  headers=[("h", b"x"), ("n", None)] if i % 3 == 0 else None, timestamp=now + i,
                  on_delivery=lambda err, m: delivered.append((err, m.offset())))
    check(p.flush(20) == 0, f"{codec}: flush")
    check(delivered == [(None, i) for i in range(200)], f"{codec}: delivery {delivered[:3]}")

c = Consumer({**boot, "group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"})
c.assign([TopicPartition("py", p, 0) for p in range(5)])
got, end = {p: [] for p in range(5)}, time.time() + 30
while sum(map(len, got.values())) < 1000 and time.time() < end:
    m = c.poll(0.5)
    if m is not None:
        check(m.error() is None, m.error())
        got[m.partition()].append(m)
for p, ms in got.items():
    check([m.offset() for m in ms] == list(range(200)), f"partition {p}: {len(ms)} records")
    for i, m in enumerate(ms):
        check(m.key() == (None if i % 5 == 0 else f"k{i}".encode()), f"key {i}")
        check(m.value() == (None if i % 7 == 0 else (f"value-{i}" * 5).encode()), f"value {i}")
        check(m.timestamp() == (TIMESTAMP_CREATE_TIME, now + i), f"timestamp {i}")
        check(m.headers() == ([("h", b"x"), ("n", None)] if i % 3 == 0 else None), f"headers {i}: {m.headers()}")

found = c.offsets_for_times([TopicPartition("py", 0, now + 50), TopicPartition("py", 1, now + 10_000_000)], timeout=10)
check([f.offset for f in found] == [50, -1], f"offsets_for_times: {found}")
check(c.get_watermark_offsets(TopicPartition("py", 2), timeout=10) == (0, 200), "watermarks")
c.close()

topics = admin.list_topics(timeout=10).topics
check(len(topics["py"].partitions) == 5 and len(topics["grows"].partitions) == 3, f"list_topics: {topics}")
resource = ConfigResource(ResourceType.TOPIC, "py")
configs = wait(admin.describe_configs([resource]))[resource]
check(configs["retention.ms"].value == "7200000" and configs["retention.ms"].source == 1, configs["retention.ms"])
changed = ConfigResource(ResourceType.TOPIC, "py", incremental_configs=[ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)])
wait(admin.incremental_alter_configs([changed]))
configs = wait(admin.describe_configs([resource]))[resource]
check(configs["retention.ms"].value == "604800000", configs["retention.ms"])
ends = wait(admin.list_offsets({TopicPartition("py", 0): OffsetSpec.latest(), TopicPartition("py", 1): OffsetSpec.max_timestamp()}))
check([r.offset for r in ends.values()] == [200, 199], f"list_offsets: {ends}")
cluster = admin.describe_cluster().result(10)
check([n.id for n in cluster.nodes] == [1], "describe_cluster")
wait(admin.delete_topics(["grows"]))
check("grows" not in admin.list_topics(timeout=10).topics, "delete_topics")
