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

// errorNames are Kafka's names, by code; see String.
var errorNames = [...]string{
	NoError:                                   "NONE",
	ErrOffsetOutOfRange:                       "OFFSET_OUT_OF_RANGE",
	ErrCorruptMessage:                         "CORRUPT_MESSAGE",
	ErrUnknownTopicOrPartition:                "UNKNOWN_TOPIC_OR_PARTITION",
	ErrInvalidFetchSize:                       "INVALID_FETCH_SIZE",
	ErrLeaderNotAvailable:                     "LEADER_NOT_AVAILABLE",
	ErrNotLeaderForPartition:                  "NOT_LEADER_FOR_PARTITION",
	ErrRequestTimedOut:                        "REQUEST_TIMED_OUT",
	ErrBrokerNotAvailable:                     "BROKER_NOT_AVAILABLE",
	ErrReplicaNotAvailable:                    "REPLICA_NOT_AVAILABLE",
	ErrMessageTooLarge:                        "MESSAGE_TOO_LARGE",
	ErrStaleControllerEpoch:                   "STALE_CONTROLLER_EPOCH",
	ErrOffsetMetadataTooLarge:                 "OFFSET_METADATA_TOO_LARGE",
	ErrNetworkException:                       "NETWORK_EXCEPTION",
	ErrCoordinatorLoadInProgress:              "COORDINATOR_LOAD_IN_PROGRESS",
	ErrCoordinatorNotAvailable:                "COORDINATOR_NOT_AVAILABLE",
	ErrNotCoordinator:                         "NOT_COORDINATOR",
	ErrInvalidTopicException:                  "INVALID_TOPIC_EXCEPTION",
	ErrRecordListTooLarge:                     "RECORD_LIST_TOO_LARGE",
	ErrNotEnoughReplicas:                      "NOT_ENOUGH_REPLICAS",
	ErrNotEnoughReplicasAfterAppend:           "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
	ErrInvalidRequiredAcks:                    "INVALID_REQUIRED_ACKS",
	ErrIllegalGeneration:                      "ILLEGAL_GENERATION",
	ErrInconsistentGroupProtocol:              "INCONSISTENT_GROUP_PROTOCOL",
	ErrInvalidGroupID:                         "INVALID_GROUP_ID",
	ErrUnknownMemberID:                        "UNKNOWN_MEMBER_ID",
	ErrInvalidSessionTimeout:                  "INVALID_SESSION_TIMEOUT",
	ErrRebalanceInProgress:                    "REBALANCE_IN_PROGRESS",
	ErrInvalidCommitOffsetSize:                "INVALID_COMMIT_OFFSET_SIZE",
	ErrTopicAuthorizationFailed:               "TOPIC_AUTHORIZATION_FAILED",
	ErrGroupAuthorizationFailed:               "GROUP_AUTHORIZATION_FAILED",
	ErrClusterAuthorizationFailed:             "CLUSTER_AUTHORIZATION_FAILED",
	ErrInvalidTimestamp:                       "INVALID_TIMESTAMP",
	ErrUnsupportedSaslMechanism:               "UNSUPPORTED_SASL_MECHANISM",
	ErrIllegalSaslState:                       "ILLEGAL_SASL_STATE",
	ErrUnsupportedVersion:                     "UNSUPPORTED_VERSION",
	ErrTopicAlreadyExists:                     "TOPIC_ALREADY_EXISTS",
	ErrInvalidPartitions:                      "INVALID_PARTITIONS",
	ErrInvalidReplicationFactor:               "INVALID_REPLICATION_FACTOR",
	ErrInvalidReplicaAssignment:               "INVALID_REPLICA_ASSIGNMENT",
	ErrInvalidConfig:                          "INVALID_CONFIG",
	ErrNotController:                          "NOT_CONTROLLER",
	ErrInvalidRequest:                         "INVALID_REQUEST",
	ErrUnsupportedForMessageFormat:            "UNSUPPORTED_FOR_MESSAGE_FORMAT",
	ErrPolicyViolation:                        "POLICY_VIOLATION",
	ErrOutOfOrderSequenceNumber:               "OUT_OF_ORDER_SEQUENCE_NUMBER",
	ErrDuplicateSequenceNumber:                "DUPLICATE_SEQUENCE_NUMBER",
	ErrInvalidProducerEpoch:                   "INVALID_PRODUCER_EPOCH",
	ErrInvalidTxnState:                        "INVALID_TXN_STATE",
	ErrInvalidProducerIDMapping:               "INVALID_PRODUCER_ID_MAPPING",
	ErrInvalidTransactionTimeout:              "INVALID_TRANSACTION_TIMEOUT",
	ErrConcurrentTransactions:                 "CONCURRENT_TRANSACTIONS",
	ErrTransactionCoordinatorFenced:           "TRANSACTION_COORDINATOR_FENCED",
	ErrTransactionalIDAuthorizationFailed:     "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
	ErrSecurityDisabled:                       "SECURITY_DISABLED",
	ErrOperationNotAttempted:                  "OPERATION_NOT_ATTEMPTED",
	ErrKafkaStorageError:                      "KAFKA_STORAGE_ERROR",
	ErrLogDirNotFound:                         "LOG_DIR_NOT_FOUND",
	ErrSaslAuthenticationFailed:               "SASL_AUTHENTICATION_FAILED",
	ErrUnknownProducerID:                      "UNKNOWN_PRODUCER_ID",
	ErrReassignmentInProgress:                 "REASSIGNMENT_IN_PROGRESS",
	ErrDelegationTokenAuthDisabled:            "DELEGATION_TOKEN_AUTH_DISABLED",
	ErrDelegationTokenNotFound:                "DELEGATION_TOKEN_NOT_FOUND",
	ErrDelegationTokenOwnerMismatch:           "DELEGATION_TOKEN_OWNER_MISMATCH",
	ErrDelegationTokenRequestNotAllowed:       "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
	ErrDelegationTokenAuthorizationFailed:     "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
	ErrDelegationTokenExpired:                 "DELEGATION_TOKEN_EXPIRED",
	ErrInvalidPrincipalType:                   "INVALID_PRINCIPAL_TYPE",
	ErrNonEmptyGroup:                          "NON_EMPTY_GROUP",
	ErrGroupIDNotFound:                        "GROUP_ID_NOT_FOUND",
	ErrFetchSessionIDNotFound:                 "FETCH_SESSION_ID_NOT_FOUND",
	ErrInvalidFetchSessionEpoch:               "INVALID_FETCH_SESSION_EPOCH",
	ErrListenerNotFound:                       "LISTENER_NOT_FOUND",
	ErrTopicDeletionDisabled:                  "TOPIC_DELETION_DISABLED",
	ErrFencedLeaderEpoch:                      "FENCED_LEADER_EPOCH",
	ErrUnknownLeaderEpoch:                     "UNKNOWN_LEADER_EPOCH",
	ErrUnsupportedCompressionType:             "UNSUPPORTED_COMPRESSION_TYPE",
	ErrStaleBrokerEpoch:                       "STALE_BROKER_EPOCH",
	ErrOffsetNotAvailable:                     "OFFSET_NOT_AVAILABLE",
	ErrMemberIDRequired:                       "MEMBER_ID_REQUIRED",
	ErrPreferredLeaderNotAvailable:            "PREFERRED_LEADER_NOT_AVAILABLE",
	ErrGroupMaxSizeReached:                    "GROUP_MAX_SIZE_REACHED",
	ErrFencedInstanceID:                       "FENCED_INSTANCE_ID",
	ErrEligibleLeadersNotAvailable:            "ELIGIBLE_LEADERS_NOT_AVAILABLE",
	ErrElectionNotNeeded:                      "ELECTION_NOT_NEEDED",
	ErrNoReassignmentInProgress:               "NO_REASSIGNMENT_IN_PROGRESS",
	ErrGroupSubscribedToTopic:                 "GROUP_SUBSCRIBED_TO_TOPIC",
	ErrInvalidRecord:                          "INVALID_RECORD",
	ErrUnstableOffsetCommit:                   "UNSTABLE_OFFSET_COMMIT",
	ErrThrottlingQuotaExceeded:                "THROTTLING_QUOTA_EXCEEDED",
	ErrProducerFenced:                         "PRODUCER_FENCED",
	ErrResourceNotFound:                       "RESOURCE_NOT_FOUND",
	ErrDuplicateResource:                      "DUPLICATE_RESOURCE",
	ErrUnacceptableCredential:                 "UNACCEPTABLE_CREDENTIAL",
	ErrInconsistentVoterSet:                   "INCONSISTENT_VOTER_SET",
	ErrInvalidUpdateVersion:                   "INVALID_UPDATE_VERSION",
	ErrFeatureUpdateFailed:                    "FEATURE_UPDATE_FAILED",
	ErrPrincipalDeserializationFailure:        "PRINCIPAL_DESERIALIZATION_FAILURE",
	ErrSnapshotNotFound:                       "SNAPSHOT_NOT_FOUND",
	ErrPositionOutOfRange:                     "POSITION_OUT_OF_RANGE",
	ErrUnknownTopicID:                         "UNKNOWN_TOPIC_ID",
	ErrDuplicateBrokerRegistration:            "DUPLICATE_BROKER_REGISTRATION",
	ErrBrokerIDNotRegistered:                  "BROKER_ID_NOT_REGISTERED",
	ErrInconsistentTopicID:                    "INCONSISTENT_TOPIC_ID",
	ErrInconsistentClusterID:                  "INCONSISTENT_CLUSTER_ID",
	ErrTransactionalIDNotFound:                "TRANSACTIONAL_ID_NOT_FOUND",
	ErrFetchSessionTopicIDError:               "FETCH_SESSION_TOPIC_ID_ERROR",
	ErrIneligibleReplica:                      "INELIGIBLE_REPLICA",
	ErrNewLeaderElected:                       "NEW_LEADER_ELECTED",
	ErrOffsetMovedToTieredStorage:             "OFFSET_MOVED_TO_TIERED_STORAGE",
	ErrFencedMemberEpoch:                      "FENCED_MEMBER_EPOCH",
	ErrUnreleasedInstanceID:                   "UNRELEASED_INSTANCE_ID",
	ErrUnsupportedAssignor:                    "UNSUPPORTED_ASSIGNOR",
	ErrStaleMemberEpoch:                       "STALE_MEMBER_EPOCH",
	ErrMismatchedEndpointType:                 "MISMATCHED_ENDPOINT_TYPE",
	ErrUnsupportedEndpointType:                "UNSUPPORTED_ENDPOINT_TYPE",
	ErrUnknownControllerID:                    "UNKNOWN_CONTROLLER_ID",
	ErrUnknownSubscriptionID:                  "UNKNOWN_SUBSCRIPTION_ID",
	ErrTelemetryTooLarge:                      "TELEMETRY_TOO_LARGE",
	ErrInvalidRegistration:                    "INVALID_REGISTRATION",
	ErrTransactionAbortable:                   "TRANSACTION_ABORTABLE",
	ErrInvalidRecordState:                     "INVALID_RECORD_STATE",
	ErrShareSessionNotFound:                   "SHARE_SESSION_NOT_FOUND",
	ErrInvalidShareSessionEpoch:               "INVALID_SHARE_SESSION_EPOCH",
	ErrFencedStateEpoch:                       "FENCED_STATE_EPOCH",
	ErrInvalidVoterKey:                        "INVALID_VOTER_KEY",
	ErrDuplicateVoter:                         "DUPLICATE_VOTER",
	ErrVoterNotFound:                          "VOTER_NOT_FOUND",
	ErrInvalidRegularExpression:               "INVALID_REGULAR_EXPRESSION",
	ErrRebootstrapRequired:                    "REBOOTSTRAP_REQUIRED",
	ErrStreamsInvalidTopology:                 "STREAMS_INVALID_TOPOLOGY",
	ErrStreamsInvalidTopologyEpoch:            "STREAMS_INVALID_TOPOLOGY_EPOCH",
	ErrStreamsTopologyFenced:                  "STREAMS_TOPOLOGY_FENCED",
	ErrShareSessionLimitReached:               "SHARE_SESSION_LIMIT_REACHED",
	ErrGroupDeletionFailed:                    "GROUP_DELETION_FAILED",
	ErrStreamsTopologyDescriptionUpdateFailed: "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED",
	ErrControllerIDNotRegistered:              "CONTROLLER_ID_NOT_REGISTERED",
}

// String gives Kafka's name of the code, e.g. "UNKNOWN_TOPIC_OR_PARTITION".
func (c ErrorCode) String() string {
	if c == ErrUnknownServerError {
		return "UNKNOWN_SERVER_ERROR"
	}
	if c >= 0 && int(c) < len(errorNames) && errorNames[c] != "" {
		return errorNames[c]
	}
	return "ErrorCode(" + strconv.Itoa(int(c)) + ")"
}
