//go:build schemas

package check

// The tests read the schemas of Kubernetes from the files of this module. It is not built.
import _ "sigs.k8s.io/kubectl-validate/pkg/openapiclient"
