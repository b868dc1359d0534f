package interop

import "github.com/twmb/franz-go/pkg/kmsg"

// consoleCases are what user interfaces ask of a cluster without security,
// transactions and moving replicas: the answers say that there are none.
func consoleCases() []compareCase {
	request := func(r kmsg.Request) func(*side, int16) kmsg.Request {
		return func(*side, int16) kmsg.Request { return r }
	}
	creation := kmsg.NewCreateACLsRequestCreation()
	creation.ResourceType, creation.ResourceName, creation.Principal, creation.Host = kmsg.ACLResourceTypeTopic, "t", "User:a", "*"
	creation.Operation, creation.PermissionType = kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
	anything := kmsg.NewDeleteACLsRequestFilter()
	anything.ResourceType, anything.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	anything.Operation, anything.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	acls := kmsg.NewPtrDescribeACLsRequest()
	acls.ResourceType, acls.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	acls.Operation, acls.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	transactions := func(states []string, pattern *string) func(*side, int16) kmsg.Request {
		r := kmsg.NewPtrListTransactionsRequest()
		r.StateFilters, r.TransactionalIDPattern = states, pattern
		return request(r)
	}
	users := func(names ...string) func(*side, int16) kmsg.Request {
		r := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		for _, n := range names {
			r.Users = append(r.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: n})
		}
		return request(r)
	}
	moving := func(topics ...kmsg.ListPartitionReassignmentsRequestTopic) func(*side, int16) kmsg.Request {
		return request(&kmsg.ListPartitionReassignmentsRequest{TimeoutMillis: 5000, Topics: topics})
	}
	return []compareCase{
		{name: "DescribeAcls", from: 1, to: 3, req: request(acls)},
		{name: "CreateAcls", from: 1, to: 3, req: request(&kmsg.CreateACLsRequest{Creations: []kmsg.CreateACLsRequestCreation{creation, creation}})},
		{name: "CreateAcls nothing", from: 1, to: 3, req: request(&kmsg.CreateACLsRequest{})},
		{name: "DeleteAcls", from: 1, to: 3, req: request(&kmsg.DeleteACLsRequest{Filters: []kmsg.DeleteACLsRequestFilter{anything}})},
		{name: "DescribeDelegationToken", from: 1, to: 3, req: request(kmsg.NewPtrDescribeDelegationTokenRequest())},
		{name: "ListPartitionReassignments", from: 0, to: 0, req: moving()},
		{name: "ListPartitionReassignments of topics", from: 0, to: 0, req: moving(kmsg.ListPartitionReassignmentsRequestTopic{Topic: "one", Partitions: []int32{0, 7}}, kmsg.ListPartitionReassignmentsRequestTopic{Topic: "nobody", Partitions: []int32{0}})},
		{name: "DescribeUserScramCredentials", from: 0, to: 0, req: users()},
		{name: "DescribeUserScramCredentials unknown", from: 0, to: 0, req: users("u", "v", "u", "")},
		{name: "DescribeTransactions", from: 0, to: 0, req: request(&kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{"t", ""}})},
		{name: "DescribeTransactions nothing", from: 0, to: 0, req: request(&kmsg.DescribeTransactionsRequest{})},
		{name: "ListTransactions", from: 0, to: 2, req: transactions(nil, nil)},
		{name: "ListTransactions states", from: 0, to: 2, req: transactions([]string{"Ongoing", "Odd", "", "Empty", "Dead", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "empty"}, nil)},
		{name: "ListTransactions pattern", from: 2, to: 2, req: transactions(nil, ptr("a.*"))},
		{name: "ListTransactions bad pattern", from: 2, to: 2, req: transactions([]string{"Odd"}, ptr("["))},
	}
}
