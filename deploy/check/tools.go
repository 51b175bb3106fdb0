//go:build schemas

package check

// The tests read the schemas of Kubernetes from this module's files; nothing of it is built.
import _ "sigs.k8s.io/kubectl-validate/pkg/openapiclient"
