// One binary for the control plane's commands and kubectl, chosen by the name it is called with.
//
// The commands share almost all of their code: one binary is a third of the size of four, and all
// control planes on one machine share its pages in memory. It adds nothing to the upstream commands
// and takes nothing away. What nodes run (kubelet, kubeadm, kube-proxy) is built by itself: a
// virtual machine pays for every package that a binary initialises, and kubeadm in this one started
// three times as slowly.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJobs have time zones, and the images have no zone files

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's credential plugins
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// commands maps the name of each command to what runs it and returns the exit code.
var commands = map[string]func() int{
	"kube-apiserver":          server(apiserver.NewAPIServerCommand),
	"kube-controller-manager": server(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          server(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubectl":                 runKubectl,
}

func server(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}

func runKubectl() int {
	// kubectl logs while its command is still being built: the verbosity has to be known before.
	if _, err := logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)); err != nil {
		fmt.Fprintln(os.Stderr, "kubectl: the verbosity was not understood:", err)
	}
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints it and ends the process
	}
	return 0
}

func main() {
	name := filepath.Base(os.Args[0])
	command, known := commands[name]
	if !known && len(os.Args) > 1 {
		// `kubernetes kubectl version`: the name as the first argument works, too.
		os.Args = os.Args[1:]
		command, known = commands[os.Args[0]]
	}
	if !known {
		names := make([]string, 0, len(commands))
		for name := range commands {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "%s is none of %s\n", name, strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(command())
}
