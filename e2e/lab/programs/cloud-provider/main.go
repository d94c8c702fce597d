// The controllers that every cloud controller manager is made of, run as they are published, with a
// cloud that a test makes up: what they do to a tenant cluster is what ours is compared with.
//
// Usage: cloud-provider <kubeconfig>. Once the controllers run it writes the line "ready". Each line
// on standard input is a whole state of the cloud as JSON (type state); "ok" answers that it holds.
// An empty line asks for its load balancers: JSON (type balancer) by namespace/name of the Service.
// The end of standard input ends the program, so that it never outlives the test.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	"k8s.io/cloud-provider/controllers/service"
	"k8s.io/component-base/metrics/prometheus/controllers"
)

// How often the controllers that poll ask the cloud: 5 minutes and 5 seconds where nobody waits.
const period = 100 * time.Millisecond

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: cloud-provider <kubeconfig>")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	made := newCloud()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	// The first state is there before anybody asks.
	if !lines.Scan() {
		return lines.Err()
	}
	if err := take(made, lines.Bytes()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := start(ctx, client, made); err != nil {
		return err
	}
	fmt.Println("ready")
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			answer, err := made.balancers()
			if err != nil {
				return err
			}
			fmt.Println(string(answer))
			continue
		}
		if err := take(made, lines.Bytes()); err != nil {
			return err
		}
		fmt.Println("ok")
	}
	return lines.Err()
}

func take(made *cloud, line []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	var next state
	if err := decoder.Decode(&next); err != nil {
		return fmt.Errorf("not a state of the cloud: %w: %s", err, line)
	}
	made.set(next)
	return nil
}

// One worker each, so that what was queued first is done first.
func start(ctx context.Context, client kubernetes.Interface, made *cloud) error {
	shared := informers.NewSharedInformerFactory(client, 0)
	nodes, services := shared.Core().V1().Nodes(), shared.Core().V1().Services()
	initialiser, err := node.NewCloudNodeController(nodes, client, made, period, 1)
	if err != nil {
		return err
	}
	lifecycle, err := nodelifecycle.NewCloudNodeLifecycleController(nodes, client, made, period)
	if err != nil {
		return err
	}
	balancers, err := service.New(made, client, services, nodes, "kubernetes", utilfeature.DefaultFeatureGate)
	if err != nil {
		return err
	}
	metrics := controllers.NewControllerManagerMetrics("cloud-provider")
	shared.Start(ctx.Done())
	shared.WaitForCacheSync(ctx.Done())
	go initialiser.RunWithContext(ctx, metrics)
	go lifecycle.Run(ctx, metrics)
	go balancers.Run(ctx, 1, metrics)
	return nil
}
