package session

// Reroute gives a request another route. It must be called before the request is admitted.
func (r *Request) Reroute(rt *Route) {
	r.Route = rt
	r.setDeadline()
}

// Hide has a request served as one whose target does not exist: by the route of such requests, with
// its deadline and its class, and without the rate limits of the target. Only operators see the
// target: it stays the label of metrics and logs. It must be called before the request is admitted.
func (r *Request) Hide(unknown *Route) {
	rt := *unknown
	rt.Series = r.Route.Series
	r.hidden = true
	r.Reroute(&rt)
}

// setDeadline sets the deadline that the route gives the request.
func (r *Request) setDeadline() {
	patience, _ := r.Route.deadline(&r.core.limits)
	r.bounded.deadline = r.began.Add(patience)
}

// limited returns the target for rate limits.
func (r *Request) limited() string {
	if r.hidden {
		return ""
	}
	return r.Route.Series.Target
}
