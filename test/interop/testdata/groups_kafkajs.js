// kafkajs's consumer groups, and their administration, at the server argv[2]; exits with 0 if all is well.
const { AssignerProtocol, Kafka, logLevel } = require('kafkajs')

const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.NOTHING })
const admin = kafka.admin()
const PARTITIONS = 6
const EACH = 50

const fail = what => { console.log(`failed: ${what}`); process.exit(1) }
const check = (ok, what) => { if (!ok) fail(what) }
const same = (got, want, what) => check(JSON.stringify(got) === JSON.stringify(want), `${what}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`)
const fails = async (type, call) => {
  const e = await call().then(() => undefined, e => e)
  check(e && (e.type === type || (e.groups || []).some(g => g.error.type === type)), `${e}, want ${type}`)
}

// until waits for the members to bring about what is wanted; news wakes it.
let waiting = []
const news = () => waiting.forEach(w => w())
const until = (what, condition) => new Promise(done => {
  const limit = setTimeout(() => fail(`never: ${what}`), 60000)
  const look = () => {
    if (!condition()) return
    clearTimeout(limit)
    waiting = waiting.filter(w => w !== look)
    done()
  }
  waiting.push(look)
  look()
})

const more = async topic => {
  const p = kafka.producer()
  await p.connect()
  await p.send({ topic, acks: -1, messages: [...Array(PARTITIONS * EACH).keys()].map(i => ({ partition: i % PARTITIONS, value: `${i}` })) })
  await p.disconnect()
}

const fill = async topic => {
  check(await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS, replicationFactor: 1 }], waitForLeaders: true }), `create ${topic}`)
  await more(topic)
}

// member consumes, and remembers what it reads and what it was given.
const member = async (topic, groupId, run = {}) => {
  const c = kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 100, maxWaitTimeInMs: 50 })
  const m = { c, has: [], seen: [], joins: 0 }
  c.on(c.events.GROUP_JOIN, ({ payload }) => { m.joins++; m.id = payload.memberId; m.has = payload.memberAssignment[topic] || []; news() })
  c.on(c.events.REBALANCING, () => { m.has = []; news() })
  c.on(c.events.CRASH, ({ payload }) => fail(`a consumer crashes: ${payload.error}`))
  await c.connect()
  await c.subscribe({ topics: [topic], fromBeginning: true })
  await c.run({ ...run, eachMessage: async ({ partition, message }) => { m.seen.push([partition, Number(message.offset)]); news() } })
  m.stop = () => c.disconnect()
  return m
}

const offsets = async groupId => {
  const all = await admin.fetchOffsets({ groupId })
  return Object.fromEntries(all.flatMap(t => t.partitions.map(p => [p.partition, Number(p.offset)])))
}
const each = count => Object.fromEntries([...Array(PARTITIONS).keys()].map(p => [p, count]))
const state = async groupId => (await admin.describeGroups([groupId])).groups[0]

// A member joins and leaves: partitions are shared, each record is read once, all is committed.
const rebalances = async () => {
  const topic = 'shared'
  await fill(topic)
  const a = await member(topic, topic)
  await until('the first reads all', () => a.seen.length === PARTITIONS * EACH)
  const b = await member(topic, topic)
  await until('two share', () => a.has.length === 3 && b.has.length === 3)
  await more(topic)
  await until('both read', () => a.seen.length + b.seen.length >= 2 * PARTITIONS * EACH)
  check(b.seen.every(([p, o]) => b.has.includes(p) && o >= EACH), 'the second reads what is not its own')
  const d = await state(topic)
  same([d.state, d.protocol, d.protocolType, d.members.length], ['Stable', 'RoundRobinAssigner', 'consumer', 2], 'describeGroups')
  const assigned = d.members.flatMap(m => AssignerProtocol.MemberAssignment.decode(m.memberAssignment).assignment[topic]).sort()
  same(assigned, [0, 1, 2, 3, 4, 5], 'assignments')
  await b.stop()
  await until('the first has all again', () => a.has.length === PARTITIONS)
  await more(topic)
  await until('it reads all', () => a.seen.length + b.seen.length >= 3 * PARTITIONS * EACH)
  await a.stop()
  const distinct = new Set([...a.seen, ...b.seen].map(String))
  same([a.seen.length + b.seen.length, distinct.size], [3 * PARTITIONS * EACH, 3 * PARTITIONS * EACH], 'records, and distinct ones')
  same(await offsets(topic), each(3 * EACH), 'committed')
  same((await state(topic)).state, 'Empty', 'the group that all have left')
}

// Nothing is committed but what is committed by hand; seek, pause and resume.
const manual = async () => {
  const topic = 'manual'
  await fill(topic)
  const m = await member(topic, topic, { autoCommit: false })
  await until('all is read', () => m.seen.length === PARTITIONS * EACH)
  same(await offsets(topic), {}, 'nothing is committed yet')
  await m.c.commitOffsets([{ topic, partition: 0, offset: '7', metadata: 'where I was' }, { topic, partition: 1, offset: '8' }])
  same(await offsets(topic), { 0: 7, 1: 8 }, 'commitOffsets')
  same((await admin.fetchOffsets({ groupId: topic, topics: [topic] }))[0].partitions.find(p => p.partition === 0).metadata, 'where I was', 'metadata')
  m.c.seek({ topic, partition: 0, offset: '40' })
  await until('seek', () => m.seen.length === PARTITIONS * EACH + 10)
  same(m.seen[PARTITIONS * EACH], [0, 40], 'the first after seek')
  m.c.pause([{ topic, partitions: [0] }])
  await more(topic)
  await until('the others go on', () => m.seen.length === PARTITIONS * EACH + 10 + (PARTITIONS - 1) * EACH)
  check(m.seen.slice(PARTITIONS * EACH + 10).every(([p]) => p !== 0), 'a paused partition is read')
  m.c.resume([{ topic, partitions: [0] }])
  await until('resume', () => m.seen.length === 2 * PARTITIONS * EACH + 10)
  await m.stop()
  const again = await member(topic, topic)
  await until('the next one starts at what is committed', () => again.seen.length === 2 * PARTITIONS * EACH - 7 - 8)
  await again.stop()
}

const administration = async () => {
  const topic = 'managed'
  await fill(topic)
  const m = await member(topic, topic)
  await until('all is read', () => m.seen.length === PARTITIONS * EACH)
  await fails('NON_EMPTY_GROUP', () => admin.deleteGroups([topic]))
  const refused = await admin.setOffsets({ groupId: topic, topic, partitions: [{ partition: 0, offset: '1' }] }).then(() => false, () => true)
  check(refused, 'offsets of a group that has members are set')
  await m.stop()
  const listed = async () => (await admin.listGroups()).groups.find(g => g.groupId === topic)
  same(await listed(), { groupId: topic, protocolType: 'consumer' }, 'listGroups')
  await admin.setOffsets({ groupId: topic, topic, partitions: [{ partition: 0, offset: '5' }, { partition: 1, offset: '6' }] })
  same(await offsets(topic), { ...each(EACH), 0: 5, 1: 6 }, 'setOffsets')
  const again = await member(topic, topic)
  await until('it is read again from there', () => again.seen.length === 2 * EACH - 5 - 6)
  await again.stop()
  await admin.resetOffsets({ groupId: topic, topic, earliest: true })
  same(new Set(Object.values(await offsets(topic))).size, 1, 'resetOffsets')
  const afresh = await member(topic, topic)
  await until('all is read again', () => afresh.seen.length === PARTITIONS * EACH)
  await afresh.stop()
  same((await admin.deleteGroups([topic])).map(g => [g.groupId, g.errorCode || 0]), [[topic, 0]], 'deleteGroups')
  same([await listed(), await offsets(topic), (await state(topic)).state], [undefined, {}, 'Dead'], 'a deleted group')
  await fails('GROUP_ID_NOT_FOUND', () => admin.deleteGroups([topic]))
  const ends = await admin.fetchTopicOffsets(topic)
  same(ends.map(p => [p.partition, p.low, p.high]).sort(), [...Array(PARTITIONS).keys()].map(p => [p, '0', `${EACH}`]), 'fetchTopicOffsets')
}

const all = async () => {
  await admin.connect()
  await rebalances()
  await manual()
  await administration()
  await admin.disconnect()
}
all().then(() => process.exit(0), e => fail(e.stack))
