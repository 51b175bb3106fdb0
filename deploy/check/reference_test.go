package check

import (
	"fmt"
	"slices"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// An installation has the objects to which others refer.
type installation struct {
	deployments map[string]*appsv1.Deployment
	services    map[string]*corev1.Service
	all         []Manifest
}

// selected returns the names of the Deployments whose pods a selector selects.
func (i installation) selected(t *testing.T, selector *metav1.LabelSelector) (names []string) {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)
	for name, d := range i.deployments {
		if s.Matches(labels.Set(d.Spec.Template.Labels)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// hasPort reports whether the pods of all Deployments have a port.
func (i installation) hasPort(names []string, port intstr.IntOrString) error {
	for _, name := range names {
		ports := i.deployments[name].Spec.Template.Spec.Containers[0].Ports
		if !slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool {
			return p.Name == port.StrVal || port.IntVal != 0 && p.ContainerPort == port.IntVal
		}) {
			return fmt.Errorf("the pods of %s have no port %s", name, port.String())
		}
	}
	return nil
}

// Objects refer only to objects that exist. A selector that selects nothing is no error for
// Kubernetes.
func TestReferencesExist(t *testing.T) {
	eachSet(t, func(t *testing.T, all []Manifest) {
		i := installation{deployments: map[string]*appsv1.Deployment{}, services: map[string]*corev1.Service{}, all: all}
		for _, d := range as[*appsv1.Deployment](t, all) {
			i.deployments[d.Name] = d
		}
		for _, s := range as[*corev1.Service](t, all) {
			i.services[s.Name] = s
		}
		i.checkDeployments(t)
		i.checkServices(t)
		i.checkScaling(t)
		i.checkPolicies(t)
		i.checkRoutes(t)
	})
}

func (i installation) checkDeployments(t *testing.T) {
	t.Helper()
	for name, d := range i.deployments {
		require.Equal(t, []string{name}, i.selected(t, d.Spec.Selector), "a Deployment has its pods to itself")
		spec := d.Spec.Template.Spec
		_, err := find(i.all, "ServiceAccount", spec.ServiceAccountName)
		require.NoError(t, err)
		c := spec.Containers[0]
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			require.Equal(t, "admin", probe.HTTPGet.Port.StrVal)
			require.NoError(t, i.hasPort([]string{name}, probe.HTTPGet.Port))
		}
		volumes := map[string]bool{}
		for _, v := range spec.Volumes {
			volumes[v.Name] = true
		}
		for _, m := range c.VolumeMounts {
			require.True(t, volumes[m.Name], m.Name)
			delete(volumes, m.Name)
		}
		require.Empty(t, volumes, "volumes that nobody mounts")
		for _, spread := range spec.TopologySpreadConstraints {
			require.Equal(t, []string{name}, i.selected(t, spread.LabelSelector))
		}
	}
}

func (i installation) checkServices(t *testing.T) {
	t.Helper()
	every := i.selected(t, &metav1.LabelSelector{})
	for name, s := range i.services {
		want := []string{name}
		switch name {
		case "vitrine-admin":
			want = every // metrics of all
		case "vitrine-gateway":
			want = []string{"vitrine"} // for one client of many
		}
		got := i.selected(t, metav1.SetAsLabelSelector(s.Spec.Selector))
		require.Equal(t, want, got, "pods of Service %s", name)
		for _, p := range s.Spec.Ports {
			require.NoError(t, i.hasPort(got, p.TargetPort))
			require.Equal(t, name == "vitrine-admin", p.Name == "admin", "the admin listener is on a Service of its own")
		}
	}
	for _, m := range as[*monitoringv1.ServiceMonitor](t, i.all) {
		var found []string
		selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
		require.NoError(t, err)
		for name, s := range i.services {
			if selector.Matches(labels.Set(s.Labels)) {
				found = append(found, name)
				for _, e := range m.Spec.Endpoints {
					require.Equal(t, s.Spec.Ports[0].Name, e.Port)
				}
				require.NotEmpty(t, s.Labels[m.Spec.JobLabel])
			}
		}
		require.Equal(t, []string{"vitrine-admin"}, found)
	}
}

func (i installation) checkScaling(t *testing.T) {
	t.Helper()
	scaled := as[*autoscalingv2.HorizontalPodAutoscaler](t, i.all)
	for _, h := range scaled {
		d := i.deployments[h.Spec.ScaleTargetRef.Name]
		require.NotNil(t, d, h.Spec.ScaleTargetRef.Name)
		require.Nil(t, d.Spec.Replicas, "or every apply would undo what the autoscaler did")
		require.NotNil(t, d.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu(), "percent of what")
		require.GreaterOrEqual(t, *h.Spec.MinReplicas, int32(2))
	}
	if len(scaled) == 0 {
		require.NotNil(t, i.deployments[releaseName].Spec.Replicas)
	}
	for _, b := range as[*policyv1.PodDisruptionBudget](t, i.all) {
		require.Equal(t, []string{releaseName}, i.selected(t, b.Spec.Selector))
		require.Nil(t, b.Spec.MinAvailable, "with one replica nothing could be evicted")
		require.NotZero(t, b.Spec.MaxUnavailable.IntVal)
	}
}

func (i installation) checkPolicies(t *testing.T) {
	t.Helper()
	policies := as[*networkingv1.NetworkPolicy](t, i.all)
	require.NotEmpty(t, policies)
	for _, p := range policies {
		require.Equal(t, i.selected(t, &metav1.LabelSelector{}), i.selected(t, &p.Spec.PodSelector))
		require.ElementsMatch(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, p.Spec.PolicyTypes)
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				require.NoError(t, i.hasPort(i.selected(t, &p.Spec.PodSelector), *port.Port))
				if port.Port.StrVal == "admin" {
					require.NotEmpty(t, rule.From, "profiles are not for everybody")
				}
			}
		}
	}
}

func (i installation) checkRoutes(t *testing.T) {
	t.Helper()
	for _, r := range as[*gatewayv1.HTTPRoute](t, i.all) {
		for _, rule := range r.Spec.Rules {
			for _, b := range rule.BackendRefs {
				s := i.services[string(b.Name)]
				require.NotNil(t, s, b.Name)
				require.Equal(t, s.Spec.Ports[0].Port, *b.Port)
			}
		}
		for _, d := range i.deployments {
			hosts := envOf(d.Spec.Template.Spec.Containers[0])["VITRINE_ALLOWED_HOSTS"]
			for _, host := range r.Spec.Hostnames {
				require.Contains(t, hosts, string(host), "%s would refuse the requests of the route", d.Name)
			}
		}
	}
}
