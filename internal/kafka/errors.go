package kafka

import "strconv"

// ErrorCode is an error of Kafka's protocol. It is a value that answers carry,
// per request or per partition; it is not a Go error. Zero is success.
type ErrorCode int16

// The error codes of Apache Kafka 4.4, named as in its Errors class.
const (
	NoError ErrorCode = 0

	ErrUnknownServerError                     ErrorCode = -1
	ErrOffsetOutOfRange                       ErrorCode = 1
	ErrCorruptMessage                         ErrorCode = 2
	ErrUnknownTopicOrPartition                ErrorCode = 3
	ErrInvalidFetchSize                       ErrorCode = 4
	ErrLeaderNotAvailable                     ErrorCode = 5
	ErrNotLeaderForPartition                  ErrorCode = 6
	ErrRequestTimedOut                        ErrorCode = 7
	ErrBrokerNotAvailable                     ErrorCode = 8
	ErrReplicaNotAvailable                    ErrorCode = 9
	ErrMessageTooLarge                        ErrorCode = 10
	ErrStaleControllerEpoch                   ErrorCode = 11
	ErrOffsetMetadataTooLarge                 ErrorCode = 12
	ErrNetworkException                       ErrorCode = 13
	ErrCoordinatorLoadInProgress              ErrorCode = 14
	ErrCoordinatorNotAvailable                ErrorCode = 15
	ErrNotCoordinator                         ErrorCode = 16
	ErrInvalidTopicException                  ErrorCode = 17
	ErrRecordListTooLarge                     ErrorCode = 18
	ErrNotEnoughReplicas                      ErrorCode = 19
	ErrNotEnoughReplicasAfterAppend           ErrorCode = 20
	ErrInvalidRequiredAcks                    ErrorCode = 21
	ErrIllegalGeneration                      ErrorCode = 22
	ErrInconsistentGroupProtocol              ErrorCode = 23
	ErrInvalidGroupID                         ErrorCode = 24
	ErrUnknownMemberID                        ErrorCode = 25
	ErrInvalidSessionTimeout                  ErrorCode = 26
	ErrRebalanceInProgress                    ErrorCode = 27
	ErrInvalidCommitOffsetSize                ErrorCode = 28
	ErrTopicAuthorizationFailed               ErrorCode = 29
	ErrGroupAuthorizationFailed               ErrorCode = 30
	ErrClusterAuthorizationFailed             ErrorCode = 31
	ErrInvalidTimestamp                       ErrorCode = 32
	ErrUnsupportedSaslMechanism               ErrorCode = 33
	ErrIllegalSaslState                       ErrorCode = 34
	ErrUnsupportedVersion                     ErrorCode = 35
	ErrTopicAlreadyExists                     ErrorCode = 36
	ErrInvalidPartitions                      ErrorCode = 37
	ErrInvalidReplicationFactor               ErrorCode = 38
	ErrInvalidReplicaAssignment               ErrorCode = 39
	ErrInvalidConfig                          ErrorCode = 40
	ErrNotController                          ErrorCode = 41
	ErrInvalidRequest                         ErrorCode = 42
	ErrUnsupportedForMessageFormat            ErrorCode = 43
	ErrPolicyViolation                        ErrorCode = 44
	ErrOutOfOrderSequenceNumber               ErrorCode = 45
	ErrDuplicateSequenceNumber                ErrorCode = 46
	ErrInvalidProducerEpoch                   ErrorCode = 47
	ErrInvalidTxnState                        ErrorCode = 48
	ErrInvalidProducerIDMapping               ErrorCode = 49
	ErrInvalidTransactionTimeout              ErrorCode = 50
	ErrConcurrentTransactions                 ErrorCode = 51
	ErrTransactionCoordinatorFenced           ErrorCode = 52
	ErrTransactionalIDAuthorizationFailed     ErrorCode = 53
	ErrSecurityDisabled                       ErrorCode = 54
	ErrOperationNotAttempted                  ErrorCode = 55
	ErrKafkaStorageError                      ErrorCode = 56
	ErrLogDirNotFound                         ErrorCode = 57
	ErrSaslAuthenticationFailed               ErrorCode = 58
	ErrUnknownProducerID                      ErrorCode = 59
	ErrReassignmentInProgress                 ErrorCode = 60
	ErrDelegationTokenAuthDisabled            ErrorCode = 61
	ErrDelegationTokenNotFound                ErrorCode = 62
	ErrDelegationTokenOwnerMismatch           ErrorCode = 63
	ErrDelegationTokenRequestNotAllowed       ErrorCode = 64
	ErrDelegationTokenAuthorizationFailed     ErrorCode = 65
	ErrDelegationTokenExpired                 ErrorCode = 66
	ErrInvalidPrincipalType                   ErrorCode = 67
	ErrNonEmptyGroup                          ErrorCode = 68
	ErrGroupIDNotFound                        ErrorCode = 69
	ErrFetchSessionIDNotFound                 ErrorCode = 70
	ErrInvalidFetchSessionEpoch               ErrorCode = 71
	ErrListenerNotFound                       ErrorCode = 72
	ErrTopicDeletionDisabled                  ErrorCode = 73
	ErrFencedLeaderEpoch                      ErrorCode = 74
	ErrUnknownLeaderEpoch                     ErrorCode = 75
	ErrUnsupportedCompressionType             ErrorCode = 76
	ErrStaleBrokerEpoch                       ErrorCode = 77
	ErrOffsetNotAvailable                     ErrorCode = 78
	ErrMemberIDRequired                       ErrorCode = 79
	ErrPreferredLeaderNotAvailable            ErrorCode = 80
	ErrGroupMaxSizeReached                    ErrorCode = 81
	ErrFencedInstanceID                       ErrorCode = 82
	ErrEligibleLeadersNotAvailable            ErrorCode = 83
	ErrElectionNotNeeded                      ErrorCode = 84
	ErrNoReassignmentInProgress               ErrorCode = 85
	ErrGroupSubscribedToTopic                 ErrorCode = 86
	ErrInvalidRecord                          ErrorCode = 87
	ErrUnstableOffsetCommit                   ErrorCode = 88
	ErrThrottlingQuotaExceeded                ErrorCode = 89
	ErrProducerFenced                         ErrorCode = 90
	ErrResourceNotFound                       ErrorCode = 91
	ErrDuplicateResource                      ErrorCode = 92
	ErrUnacceptableCredential                 ErrorCode = 93
	ErrInconsistentVoterSet                   ErrorCode = 94
	ErrInvalidUpdateVersion                   ErrorCode = 95
	ErrFeatureUpdateFailed                    ErrorCode = 96
	ErrPrincipalDeserializationFailure        ErrorCode = 97
	ErrSnapshotNotFound                       ErrorCode = 98
	ErrPositionOutOfRange                     ErrorCode = 99
	ErrUnknownTopicID                         ErrorCode = 100
	ErrDuplicateBrokerRegistration            ErrorCode = 101
	ErrBrokerIDNotRegistered                  ErrorCode = 102
	ErrInconsistentTopicID                    ErrorCode = 103
	ErrInconsistentClusterID                  ErrorCode = 104
	ErrTransactionalIDNotFound                ErrorCode = 105
	ErrFetchSessionTopicIDError               ErrorCode = 106
	ErrIneligibleReplica                      ErrorCode = 107
	ErrNewLeaderElected                       ErrorCode = 108
	ErrOffsetMovedToTieredStorage             ErrorCode = 109
	ErrFencedMemberEpoch                      ErrorCode = 110
	ErrUnreleasedInstanceID                   ErrorCode = 111
	ErrUnsupportedAssignor                    ErrorCode = 112
	ErrStaleMemberEpoch                       ErrorCode = 113
	ErrMismatchedEndpointType                 ErrorCode = 114
	ErrUnsupportedEndpointType                ErrorCode = 115
	ErrUnknownControllerID                    ErrorCode = 116
	ErrUnknownSubscriptionID                  ErrorCode = 117
	ErrTelemetryTooLarge                      ErrorCode = 118
	ErrInvalidRegistration                    ErrorCode = 119
	ErrTransactionAbortable                   ErrorCode = 120
	ErrInvalidRecordState                     ErrorCode = 121
	ErrShareSessionNotFound                   ErrorCode = 122
	ErrInvalidShareSessionEpoch               ErrorCode = 123
	ErrFencedStateEpoch                       ErrorCode = 124
	ErrInvalidVoterKey                        ErrorCode = 125
	ErrDuplicateVoter                         ErrorCode = 126
	ErrVoterNotFound                          ErrorCode = 127
	ErrInvalidRegularExpression               ErrorCode = 128
	ErrRebootstrapRequired                    ErrorCode = 129
	ErrStreamsInvalidTopology                 ErrorCode = 130
	ErrStreamsInvalidTopologyEpoch            ErrorCode = 131
	ErrStreamsTopologyFenced                  ErrorCode = 132
	ErrShareSessionLimitReached               ErrorCode = 133
	ErrGroupDeletionFailed                    ErrorCode = 134
	ErrStreamsTopologyDescriptionUpdateFailed ErrorCode = 135
	ErrControllerIDNotRegistered              ErrorCode = 136
)

// String gives Kafka's name of the code, e.g. "UNKNOWN_TOPIC_OR_PARTITION".
func (c ErrorCode) String() string {
	if c == NoError {
		return "NONE"
	}
	if name := c.name(); name != "" {
		return name
	}
	return "ErrorCode(" + strconv.Itoa(int(c)) + ")"
}

func (c ErrorCode) name() string {
	switch c {
	case ErrUnknownServerError:
		return "UNKNOWN_SERVER_ERROR"
	case ErrOffsetOutOfRange:
		return "OFFSET_OUT_OF_RANGE"
	case ErrCorruptMessage:
		return "CORRUPT_MESSAGE"
	case ErrUnknownTopicOrPartition:
		return "UNKNOWN_TOPIC_OR_PARTITION"
	case ErrInvalidFetchSize:
		return "INVALID_FETCH_SIZE"
	case ErrLeaderNotAvailable:
		return "LEADER_NOT_AVAILABLE"
	case ErrNotLeaderForPartition:
		return "NOT_LEADER_FOR_PARTITION"
	case ErrRequestTimedOut:
		return "REQUEST_TIMED_OUT"
	case ErrBrokerNotAvailable:
		return "BROKER_NOT_AVAILABLE"
	case ErrReplicaNotAvailable:
		return "REPLICA_NOT_AVAILABLE"
	case ErrMessageTooLarge:
		return "MESSAGE_TOO_LARGE"
	case ErrStaleControllerEpoch:
		return "STALE_CONTROLLER_EPOCH"
	case ErrOffsetMetadataTooLarge:
		return "OFFSET_METADATA_TOO_LARGE"
	case ErrNetworkException:
		return "NETWORK_EXCEPTION"
	case ErrCoordinatorLoadInProgress:
		return "COORDINATOR_LOAD_IN_PROGRESS"
	case ErrCoordinatorNotAvailable:
		return "COORDINATOR_NOT_AVAILABLE"
	case ErrNotCoordinator:
		return "NOT_COORDINATOR"
	case ErrInvalidTopicException:
		return "INVALID_TOPIC_EXCEPTION"
	case ErrRecordListTooLarge:
		return "RECORD_LIST_TOO_LARGE"
	case ErrNotEnoughReplicas:
		return "NOT_ENOUGH_REPLICAS"
	case ErrNotEnoughReplicasAfterAppend:
		return "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
	case ErrInvalidRequiredAcks:
		return "INVALID_REQUIRED_ACKS"
	case ErrIllegalGeneration:
		return "ILLEGAL_GENERATION"
	case ErrInconsistentGroupProtocol:
		return "INCONSISTENT_GROUP_PROTOCOL"
	case ErrInvalidGroupID:
		return "INVALID_GROUP_ID"
	case ErrUnknownMemberID:
		return "UNKNOWN_MEMBER_ID"
	case ErrInvalidSessionTimeout:
		return "INVALID_SESSION_TIMEOUT"
	case ErrRebalanceInProgress:
		return "REBALANCE_IN_PROGRESS"
	case ErrInvalidCommitOffsetSize:
		return "INVALID_COMMIT_OFFSET_SIZE"
	case ErrTopicAuthorizationFailed:
		return "TOPIC_AUTHORIZATION_FAILED"
	case ErrGroupAuthorizationFailed:
		return "GROUP_AUTHORIZATION_FAILED"
	case ErrClusterAuthorizationFailed:
		return "CLUSTER_AUTHORIZATION_FAILED"
	case ErrInvalidTimestamp:
		return "INVALID_TIMESTAMP"
	case ErrUnsupportedSaslMechanism:
		return "UNSUPPORTED_SASL_MECHANISM"
	case ErrIllegalSaslState:
		return "ILLEGAL_SASL_STATE"
	case ErrUnsupportedVersion:
		return "UNSUPPORTED_VERSION"
	case ErrTopicAlreadyExists:
		return "TOPIC_ALREADY_EXISTS"
	case ErrInvalidPartitions:
		return "INVALID_PARTITIONS"
	case ErrInvalidReplicationFactor:
		return "INVALID_REPLICATION_FACTOR"
	case ErrInvalidReplicaAssignment:
		return "INVALID_REPLICA_ASSIGNMENT"
	case ErrInvalidConfig:
		return "INVALID_CONFIG"
	case ErrNotController:
		return "NOT_CONTROLLER"
	case ErrInvalidRequest:
		return "INVALID_REQUEST"
	case ErrUnsupportedForMessageFormat:
		return "UNSUPPORTED_FOR_MESSAGE_FORMAT"
	case ErrPolicyViolation:
		return "POLICY_VIOLATION"
	case ErrOutOfOrderSequenceNumber:
		return "OUT_OF_ORDER_SEQUENCE_NUMBER"
	case ErrDuplicateSequenceNumber:
		return "DUPLICATE_SEQUENCE_NUMBER"
	case ErrInvalidProducerEpoch:
		return "INVALID_PRODUCER_EPOCH"
	case ErrInvalidTxnState:
		return "INVALID_TXN_STATE"
	case ErrInvalidProducerIDMapping:
		return "INVALID_PRODUCER_ID_MAPPING"
	case ErrInvalidTransactionTimeout:
		return "INVALID_TRANSACTION_TIMEOUT"
	case ErrConcurrentTransactions:
		return "CONCURRENT_TRANSACTIONS"
	case ErrTransactionCoordinatorFenced:
		return "TRANSACTION_COORDINATOR_FENCED"
	case ErrTransactionalIDAuthorizationFailed:
		return "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
	case ErrSecurityDisabled:
		return "SECURITY_DISABLED"
	case ErrOperationNotAttempted:
		return "OPERATION_NOT_ATTEMPTED"
	case ErrKafkaStorageError:
		return "KAFKA_STORAGE_ERROR"
	case ErrLogDirNotFound:
		return "LOG_DIR_NOT_FOUND"
	case ErrSaslAuthenticationFailed:
		return "SASL_AUTHENTICATION_FAILED"
	case ErrUnknownProducerID:
		return "UNKNOWN_PRODUCER_ID"
	case ErrReassignmentInProgress:
		return "REASSIGNMENT_IN_PROGRESS"
	case ErrDelegationTokenAuthDisabled:
		return "DELEGATION_TOKEN_AUTH_DISABLED"
	case ErrDelegationTokenNotFound:
		return "DELEGATION_TOKEN_NOT_FOUND"
	case ErrDelegationTokenOwnerMismatch:
		return "DELEGATION_TOKEN_OWNER_MISMATCH"
	case ErrDelegationTokenRequestNotAllowed:
		return "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
	case ErrDelegationTokenAuthorizationFailed:
		return "DELEGATION_TOKEN_AUTHORIZATION_FAILED"
	case ErrDelegationTokenExpired:
		return "DELEGATION_TOKEN_EXPIRED"
	case ErrInvalidPrincipalType:
		return "INVALID_PRINCIPAL_TYPE"
	case ErrNonEmptyGroup:
		return "NON_EMPTY_GROUP"
	case ErrGroupIDNotFound:
		return "GROUP_ID_NOT_FOUND"
	case ErrFetchSessionIDNotFound:
		return "FETCH_SESSION_ID_NOT_FOUND"
	case ErrInvalidFetchSessionEpoch:
		return "INVALID_FETCH_SESSION_EPOCH"
	case ErrListenerNotFound:
		return "LISTENER_NOT_FOUND"
	case ErrTopicDeletionDisabled:
		return "TOPIC_DELETION_DISABLED"
	case ErrFencedLeaderEpoch:
		return "FENCED_LEADER_EPOCH"
	case ErrUnknownLeaderEpoch:
		return "UNKNOWN_LEADER_EPOCH"
	case ErrUnsupportedCompressionType:
		return "UNSUPPORTED_COMPRESSION_TYPE"
	case ErrStaleBrokerEpoch:
		return "STALE_BROKER_EPOCH"
	case ErrOffsetNotAvailable:
		return "OFFSET_NOT_AVAILABLE"
	case ErrMemberIDRequired:
		return "MEMBER_ID_REQUIRED"
	case ErrPreferredLeaderNotAvailable:
		return "PREFERRED_LEADER_NOT_AVAILABLE"
	case ErrGroupMaxSizeReached:
		return "GROUP_MAX_SIZE_REACHED"
	case ErrFencedInstanceID:
		return "FENCED_INSTANCE_ID"
	case ErrEligibleLeadersNotAvailable:
		return "ELIGIBLE_LEADERS_NOT_AVAILABLE"
	case ErrElectionNotNeeded:
		return "ELECTION_NOT_NEEDED"
	case ErrNoReassignmentInProgress:
		return "NO_REASSIGNMENT_IN_PROGRESS"
	case ErrGroupSubscribedToTopic:
		return "GROUP_SUBSCRIBED_TO_TOPIC"
	case ErrInvalidRecord:
		return "INVALID_RECORD"
	case ErrUnstableOffsetCommit:
		return "UNSTABLE_OFFSET_COMMIT"
	case ErrThrottlingQuotaExceeded:
		return "THROTTLING_QUOTA_EXCEEDED"
	case ErrProducerFenced:
		return "PRODUCER_FENCED"
	case ErrResourceNotFound:
		return "RESOURCE_NOT_FOUND"
	case ErrDuplicateResource:
		return "DUPLICATE_RESOURCE"
	case ErrUnacceptableCredential:
		return "UNACCEPTABLE_CREDENTIAL"
	case ErrInconsistentVoterSet:
		return "INCONSISTENT_VOTER_SET"
	case ErrInvalidUpdateVersion:
		return "INVALID_UPDATE_VERSION"
	case ErrFeatureUpdateFailed:
		return "FEATURE_UPDATE_FAILED"
	case ErrPrincipalDeserializationFailure:
		return "PRINCIPAL_DESERIALIZATION_FAILURE"
	case ErrSnapshotNotFound:
		return "SNAPSHOT_NOT_FOUND"
	case ErrPositionOutOfRange:
		return "POSITION_OUT_OF_RANGE"
	case ErrUnknownTopicID:
		return "UNKNOWN_TOPIC_ID"
	case ErrDuplicateBrokerRegistration:
		return "DUPLICATE_BROKER_REGISTRATION"
	case ErrBrokerIDNotRegistered:
		return "BROKER_ID_NOT_REGISTERED"
	case ErrInconsistentTopicID:
		return "INCONSISTENT_TOPIC_ID"
	case ErrInconsistentClusterID:
		return "INCONSISTENT_CLUSTER_ID"
	case ErrTransactionalIDNotFound:
		return "TRANSACTIONAL_ID_NOT_FOUND"
	case ErrFetchSessionTopicIDError:
		return "FETCH_SESSION_TOPIC_ID_ERROR"
	case ErrIneligibleReplica:
		return "INELIGIBLE_REPLICA"
	case ErrNewLeaderElected:
		return "NEW_LEADER_ELECTED"
	case ErrOffsetMovedToTieredStorage:
		return "OFFSET_MOVED_TO_TIERED_STORAGE"
	case ErrFencedMemberEpoch:
		return "FENCED_MEMBER_EPOCH"
	case ErrUnreleasedInstanceID:
		return "UNRELEASED_INSTANCE_ID"
	case ErrUnsupportedAssignor:
		return "UNSUPPORTED_ASSIGNOR"
	case ErrStaleMemberEpoch:
		return "STALE_MEMBER_EPOCH"
	case ErrMismatchedEndpointType:
		return "MISMATCHED_ENDPOINT_TYPE"
	case ErrUnsupportedEndpointType:
		return "UNSUPPORTED_ENDPOINT_TYPE"
	case ErrUnknownControllerID:
		return "UNKNOWN_CONTROLLER_ID"
	case ErrUnknownSubscriptionID:
		return "UNKNOWN_SUBSCRIPTION_ID"
	case ErrTelemetryTooLarge:
		return "TELEMETRY_TOO_LARGE"
	case ErrInvalidRegistration:
		return "INVALID_REGISTRATION"
	case ErrTransactionAbortable:
		return "TRANSACTION_ABORTABLE"
	case ErrInvalidRecordState:
		return "INVALID_RECORD_STATE"
	case ErrShareSessionNotFound:
		return "SHARE_SESSION_NOT_FOUND"
	case ErrInvalidShareSessionEpoch:
		return "INVALID_SHARE_SESSION_EPOCH"
	case ErrFencedStateEpoch:
		return "FENCED_STATE_EPOCH"
	case ErrInvalidVoterKey:
		return "INVALID_VOTER_KEY"
	case ErrDuplicateVoter:
		return "DUPLICATE_VOTER"
	case ErrVoterNotFound:
		return "VOTER_NOT_FOUND"
	case ErrInvalidRegularExpression:
		return "INVALID_REGULAR_EXPRESSION"
	case ErrRebootstrapRequired:
		return "REBOOTSTRAP_REQUIRED"
	case ErrStreamsInvalidTopology:
		return "STREAMS_INVALID_TOPOLOGY"
	case ErrStreamsInvalidTopologyEpoch:
		return "STREAMS_INVALID_TOPOLOGY_EPOCH"
	case ErrStreamsTopologyFenced:
		return "STREAMS_TOPOLOGY_FENCED"
	case ErrShareSessionLimitReached:
		return "SHARE_SESSION_LIMIT_REACHED"
	case ErrGroupDeletionFailed:
		return "GROUP_DELETION_FAILED"
	case ErrStreamsTopologyDescriptionUpdateFailed:
		return "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED"
	case ErrControllerIDNotRegistered:
		return "CONTROLLER_ID_NOT_REGISTERED"
	}
	return ""
}
