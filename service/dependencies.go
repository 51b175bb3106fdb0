package service

import "fmt"

// A dependency is a setting that does nothing without another one.
type dependency struct {
	setting string
	set     bool // to something else than its default
	needs   string
	met     bool
}

// dependencies returns the settings that do nothing without another one. Those that describe the program, such as the
// scopes that it knows, and those that have defaults of their own, such as the times of the flight recorder, are not among
// them: nobody expects that they turn something on.
func (c *Config) dependencies() []dependency {
	a, o := &c.Auth, &c.OAuth
	client := o.IntrospectionClient != ""
	return []dependency{
		{flagTLSClientOptional, c.TLS.ClientOptional, flagTLSClientCA, c.TLS.ClientCA != ""},
		{flagClientCertScopes, len(a.ClientCertScopes) > 0, flagClientCert, a.ClientCert != ""},
		{flagProxyTenant, a.ProxyTenantHeader != "", flagProxyHeader, a.ProxyHeader != ""},
		{flagProxyScopes, a.ProxyScopesHeader != "", flagProxyHeader, a.ProxyHeader != ""},
		{flagIntrospectionSecret, o.IntrospectionSecretFile != "", flagIntrospectionClient, client},
		{flagIntrospectionAlways, o.IntrospectionAlways, flagIntrospectionClient, client},
		{flagPolicyDryRun, c.Policy.DryRun, flagPolicy, c.Policy.File != ""},
		{flagAuditMaxSize, c.Audit.MaxSize != 0, flagAuditFile, c.Audit.File != ""},
		{flagAuditMaxFiles, c.Audit.MaxFiles != 0, flagAuditFile, c.Audit.File != ""},
		{flagAuditKey, c.Audit.KeyFile != "", flagAuditFile, c.Audit.File != ""},
		{flagAuditStrict, c.Audit.Strict, flagAuditFile, c.Audit.File != ""},
		{flagStoreReadiness, c.StoreReadiness, flagStore, c.Store != ""},
	}
}

// checkDependencies returns an error for each setting that would be ignored: an operator who sets one
// thinks that it works. The values of all settings must be known.
func (c *Config) checkDependencies() (faults []error) {
	for _, d := range c.dependencies() {
		if d.set && !d.met {
			faults = append(faults, fmt.Errorf("--%s has no effect without --%s", d.setting, d.needs))
		}
	}
	return faults
}
