package main

// One name, a holder and a queue of waiters: from the holder's Unlock to the return of the next Lock.

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

type handoffResult struct {
	Waiters  int     `json:"waiters"`
	Handoffs int     `json:"handoffs"`
	P50Ms    float64 `json:"p50Ms"`
	P99Ms    float64 `json:"p99Ms"`
}

type grant struct {
	mutex *concurrency.Mutex
	at    time.Time
	err   error
}

const parallelSetup = 64

// Every waiter has a session of its own, as two mutexes of one session would be one and the same
// holder. The last holder queues again before the next hand-off, so the queue keeps its length. Each
// holder keeps the lock for a while: etcd serves a new watch of a past revision in a loop that runs
// every 100 ms, and a hand-off that falls into it would measure that loop and not the hand-off.
func measureHandoffs(ctx context.Context, chosen options) (*handoffResult, error) {
	client, err := dial(chosen.endpoint)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	sessions, err := openSessions(client, chosen.waiters+1)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("queue-%x", sessions[0].Lease())
	mutexes := make([]*concurrency.Mutex, len(sessions))
	for i, session := range sessions {
		mutexes[i] = concurrency.NewMutex(session, name)
	}
	holder := mutexes[0]
	if err := holder.Lock(ctx); err != nil {
		return nil, err
	}
	grants := make(chan grant, len(mutexes))
	enqueue := func(mutex *concurrency.Mutex) {
		err := mutex.Lock(ctx)
		grants <- grant{mutex, time.Now(), err}
	}
	for _, mutex := range mutexes[1:] {
		go enqueue(mutex)
	}
	var times []time.Duration
	for i := 0; i < chosen.handoffs; i++ {
		if err := awaitQueue(ctx, client, name, len(mutexes)); err != nil {
			return nil, err
		}
		time.Sleep(seconds(chosen.hold))
		start := time.Now()
		if err := holder.Unlock(ctx); err != nil {
			return nil, err
		}
		next := <-grants
		if next.err != nil {
			return nil, next.err
		}
		times = append(times, next.at.Sub(start))
		go enqueue(holder)
		holder = next.mutex
	}
	p50, p99 := quantiles(times)
	return &handoffResult{chosen.waiters, len(times), p50, p99}, nil
}

func openSessions(client *clientv3.Client, count int) ([]*concurrency.Session, error) {
	sessions := make([]*concurrency.Session, count)
	failures := make(chan error, count)
	slots := make(chan struct{}, parallelSetup)
	for i := range sessions {
		slots <- struct{}{}
		go func(i int) {
			var err error
			sessions[i], err = concurrency.NewSession(client, concurrency.WithTTL(300))
			failures <- err
			<-slots
		}(i)
	}
	for range sessions {
		if err := <-failures; err != nil {
			return nil, err
		}
	}
	return sessions, nil
}

// awaitQueue returns when holder and waiters all have their key; outside of what is measured.
func awaitQueue(ctx context.Context, client *clientv3.Client, name string, length int) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		answer, err := client.Get(ctx, name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		if answer.Count == int64(length) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d queued in two minutes", answer.Count, length)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
