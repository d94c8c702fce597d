// The process that holds a pod's namespaces open: it sleeps, reaps what is left to it when the
// pod shares one PID namespace, and ends on SIGTERM or SIGINT.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for {
		reap() // also before the first signal: children may have been inherited already
		if s := <-signals; s != syscall.SIGCHLD {
			return
		}
	}
}

// reap takes every child that has ended. Several may end under one SIGCHLD.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 || err != nil {
			return
		}
	}
}
