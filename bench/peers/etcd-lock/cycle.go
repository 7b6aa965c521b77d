package main

// Acquire and release, again and again, each worker on a name of its own.

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

type cycleResult struct {
	Cycles  int     `json:"cycles"`
	Seconds float64 `json:"seconds"`
	P50Ms   float64 `json:"p50Ms"`
	P99Ms   float64 `json:"p99Ms"`
}

// cycle acquires and releases once; each worker has its own.
type cycle func(ctx context.Context) error

func mutexCycle(session *concurrency.Session, name string) cycle {
	return func(ctx context.Context) error {
		mutex := concurrency.NewMutex(session, name)
		if err := mutex.Lock(ctx); err != nil {
			return err
		}
		return mutex.Unlock(ctx)
	}
}

// txnCycle is the least that is still a lock: the key is created only if absent and dies with the lease.
func txnCycle(client *clientv3.Client, session *concurrency.Session, name string) cycle {
	create := clientv3.OpPut(name, "", clientv3.WithLease(session.Lease()))
	absent := clientv3.Compare(clientv3.CreateRevision(name), "=", 0)
	return func(ctx context.Context) error {
		answer, err := client.Txn(ctx).If(absent).Then(create).Commit()
		if err != nil {
			return err
		}
		if !answer.Succeeded {
			return fmt.Errorf("%s is held by another", name)
		}
		_, err = client.Delete(ctx, name)
		return err
	}
}

func measureCycles(ctx context.Context, chosen options) (*cycleResult, error) {
	cycles := make([]cycle, chosen.workers)
	var client *clientv3.Client
	var session *concurrency.Session
	for i := range cycles {
		if client == nil || chosen.separate {
			var err error
			if client, err = dial(chosen.endpoint); err != nil {
				return nil, err
			}
			defer client.Close()
			if session, err = concurrency.NewSession(client, concurrency.WithTTL(60)); err != nil {
				return nil, err
			}
			defer session.Close()
		}
		name := fmt.Sprintf("bench-%x-%d", session.Lease(), i)
		if chosen.mode == "mutex" {
			cycles[i] = mutexCycle(session, name)
		} else {
			cycles[i] = txnCycle(client, session, name)
		}
	}
	return drive(ctx, cycles, seconds(chosen.warmup), seconds(chosen.seconds))
}

func seconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }

// drive runs all workers until the time is over and counts the cycles that began and ended within it.
func drive(ctx context.Context, cycles []cycle, warmup, measured time.Duration) (*cycleResult, error) {
	begin := time.Now().Add(warmup)
	end := begin.Add(measured)
	times := make([][]time.Duration, len(cycles))
	failures := make([]error, len(cycles))
	var workers sync.WaitGroup
	for i, once := range cycles {
		workers.Add(1)
		go func(i int, once cycle) {
			defer workers.Done()
			for {
				start := time.Now()
				if !start.Before(end) {
					return
				}
				if failures[i] = once(ctx); failures[i] != nil {
					return
				}
				if done := time.Now(); !start.Before(begin) && !done.After(end) {
					times[i] = append(times[i], done.Sub(start))
				}
			}
		}(i, once)
	}
	workers.Wait()
	var all []time.Duration
	for i := range cycles {
		if failures[i] != nil {
			return nil, failures[i]
		}
		all = append(all, times[i]...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no cycle ended within %v", measured)
	}
	p50, p99 := quantiles(all)
	return &cycleResult{len(all), measured.Seconds(), p50, p99}, nil
}
