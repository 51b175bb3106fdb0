package soak
import ("testing";"context";"time")
func TestZFlood(t *testing.T){ w:=newWorld(t); ctx,c:=context.WithTimeout(context.Background(),2*time.Second); defer c()
 done:=make(chan bool); for range 4 { go func(){ w.pipeFlood(ctx); done<-true}() }
 for i:=range 4 { select{ case <-done: case <-time.After(10*time.Second): m:=w.scrape(); t.Log(w.summary(0,0), m.by("vitrine_responses_dropped_total","reason"), w.report().Totals, w.calls.Load()); t.Fatal("stuck",i)} }
 t.Log(w.faults)
}
