package main

import (
	"sort"
	"time"
)

// quantiles gives the median and the 99th percentile in milliseconds (nearest rank).
func quantiles(times []time.Duration) (p50Ms, p99Ms float64) {
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	at := func(share float64) float64 {
		return times[int(share*float64(len(times)-1)+0.5)].Seconds() * 1000
	}
	return at(0.5), at(0.99)
}
