// kafkajs against the server at argv[2]; exits with 0 if all is well.
const { Kafka, logLevel } = require('kafkajs');
const assert = require('node:assert');

const kafka = new Kafka({ clientId: 'js', brokers: [process.argv[2]], logLevel: logLevel.ERROR });
const topic = 'js', total = 120;

// until resolves when the condition holds, and fails after a time.
function until(what, condition) {
  return new Promise((done, fail) => {
    const end = Date.now() + 30_000;
    const look = () => condition() ? done() : Date.now() > end ? fail(new Error(`never: ${what}`)) : setTimeout(look, 20);
    look();
  });
}

function member(groupId, seen, assigned) {
  const c = kafka.consumer({ groupId, sessionTimeout: 10_000, heartbeatInterval: 200, rebalanceTimeout: 10_000 });
  c.on(c.events.GROUP_JOIN, (e) => assigned.push((e.payload.memberAssignment[topic] || []).length));
  return { c, run: async () => {
    await c.connect();
    await c.subscribe({ topic, fromBeginning: true });
    await c.run({ autoCommitInterval: 100, eachMessage: async ({ message }) => { seen.push(message.value.toString()); } });
  } };
}

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  assert(await admin.createTopics({ topics: [{ topic, numPartitions: 4, replicationFactor: 1 }], waitForLeaders: true }));
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, messages: Array.from({ length: total }, (_, i) => ({ key: `k${i}`, value: `v${i}` })) });

  // Two members share the partitions; one leaves; the other takes all.
  const seen = [], a = [], b = [];
  const first = member('js-group', seen, a), second = member('js-group', seen, b);
  await first.run();
  await until('all read', () => new Set(seen).size === total);
  await until('one has all', () => a.at(-1) === 4);
  await second.run();
  await until('both have two', () => a.at(-1) === 2 && b.at(-1) === 2);
  await second.c.disconnect();
  await until('one has all again', () => a.at(-1) === 4);

  const described = (await admin.describeGroups(['js-group'])).groups[0];
  assert.equal(described.state, 'Stable');
  assert.equal(described.members.length, 1);
  await first.c.disconnect();
  assert((await admin.listGroups()).groups.some((g) => g.groupId === 'js-group' && g.protocolType === 'consumer'));
  const sum = (list) => list[0].partitions.reduce((n, p) => n + Number(p.offset), 0);
  assert.equal(sum(await admin.fetchOffsets({ groupId: 'js-group', topics: [topic] })), total);

  // Nothing is read again; after a reset, everything is.
  const again = [], c = [];
  let third = member('js-group', again, c);
  await third.run();
  await producer.send({ topic, messages: [{ key: 'k', value: 'last' }] });
  await until('the new one read', () => again.length > 0);
  assert.deepEqual(again, ['last']);
  await third.c.disconnect();
  await admin.resetOffsets({ groupId: 'js-group', topic, earliest: true });
  await admin.setOffsets({ groupId: 'js-group', topic, partitions: [{ partition: 0, offset: '1' }] });
  const offsets = (await admin.fetchOffsets({ groupId: 'js-group', topics: [topic] }))[0].partitions;
  assert.equal(offsets.find((p) => p.partition === 0).offset, '1');

  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '2' }] });
  assert.equal((await admin.fetchTopicOffsets(topic)).find((p) => p.partition === 0).low, '2');
  await admin.deleteGroups(['js-group']);
  assert(!(await admin.listGroups()).groups.some((g) => g.groupId === 'js-group'));
  await producer.disconnect();
  await admin.disconnect();
}

main().then(() => process.exit(0), (err) => { console.error(err); process.exit(1); });
