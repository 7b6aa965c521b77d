// Load generator that drives etcd's locks through etcd's own client, one JSON object on stdout.
// Owns the measured loops of the peer; knows nothing of lockd.
//
// Build: GO111MODULE=off GOPATH=/usr/share/gocode go build
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.uber.org/zap"
)

type options struct {
	endpoint string
	mode     string
	workers  int
	separate bool
	seconds  float64
	warmup   float64
	waiters  int
	handoffs int
	hold     float64
}

func parse() options {
	var chosen options
	flag.StringVar(&chosen.endpoint, "endpoint", "127.0.0.1:2379", "client address of the server")
	flag.StringVar(&chosen.mode, "mode", "mutex", "mutex: concurrency.Mutex; txn: create-if-absent and delete; handoff: a queue of waiters")
	flag.IntVar(&chosen.workers, "workers", 1, "concurrent holders, each on its own name")
	flag.BoolVar(&chosen.separate, "separate", false, "one connection for each worker instead of one for all")
	flag.Float64Var(&chosen.seconds, "seconds", 1, "measured time")
	flag.Float64Var(&chosen.warmup, "warmup", 0.3, "time before it, not counted")
	flag.IntVar(&chosen.waiters, "waiters", 1, "handoff: how many wait for the one name")
	flag.IntVar(&chosen.handoffs, "handoffs", 100, "handoff: how many grants are measured")
	flag.Float64Var(&chosen.hold, "hold", 0.15, "handoff: seconds that each holder keeps the lock")
	flag.Parse()
	return chosen
}

func dial(endpoint string) (*clientv3.Client, error) {
	// at the end waiters are cut off, which the client would report one by one: errors come back anyway
	quiet := zap.NewProductionConfig()
	quiet.Level = zap.NewAtomicLevelAt(zap.FatalLevel)
	return clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second, LogConfig: &quiet})
}

func run(chosen options) (interface{}, error) {
	ctx := context.Background()
	switch chosen.mode {
	case "mutex", "txn":
		return measureCycles(ctx, chosen)
	case "handoff":
		return measureHandoffs(ctx, chosen)
	}
	return nil, fmt.Errorf("unknown mode %q", chosen.mode)
}

func main() {
	result, err := run(parse())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd-lock:", err)
		os.Exit(1)
	}
}
