package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
)

// Provider IDs are those of KubeVirt's machines, so that both sides write the same.
const scheme = "kubevirt://"

// How long a load balancer without an address is left alone. Each look makes Events, and client-go
// drops those of an object after 25.
const patience = 5 * time.Second

// What the cloud has.
type state struct {
	// By the node's name.
	Machines map[string]machine `json:"machines"`
	// Addresses of load balancers by namespace/name of the Service; none yet where one is missing.
	Balancers map[string][]v1.LoadBalancerIngress `json:"balancers"`
}

type machine struct {
	Shutdown  bool     `json:"shutdown"`
	Addresses []string `json:"addresses"`
	Zone      string   `json:"zone"`
	Region    string   `json:"region"`
	Type      string   `json:"type"`
}

// A cloud with machines and load balancers, and without anything else.
type cloud struct {
	lock  sync.Mutex
	state state
	// Load balancers that were made, with and without an address.
	made map[string]balancer
}

// A load balancer, as it was last asked for.
type balancer struct {
	Spec v1.ServiceSpec `json:"spec"`
	// Names of the nodes that it sends to.
	Nodes []string `json:"nodes"`
}

func newCloud() *cloud {
	return &cloud{made: map[string]balancer{}}
}

func (c *cloud) set(next state) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.state = next
}

// The machine of a node. Somebody else's provider ID is an error, as with KubeVirt's own.
func (c *cloud) machine(node *v1.Node) (machine, string, bool, error) {
	name := node.Name
	if id := node.Spec.ProviderID; id != "" {
		var ours bool
		if name, ours = strings.CutPrefix(id, scheme); !ours {
			return machine{}, "", false, fmt.Errorf("provider ID %q is none of this cloud", id)
		}
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	found, ok := c.state.Machines[name]
	return found, name, ok, nil
}

func (c *cloud) InstanceExists(_ context.Context, node *v1.Node) (bool, error) {
	_, _, ok, err := c.machine(node)
	return ok, err
}

func (c *cloud) InstanceShutdown(_ context.Context, node *v1.Node) (bool, error) {
	found, _, ok, err := c.machine(node)
	if err == nil && !ok {
		err = cloudprovider.InstanceNotFound
	}
	return found.Shutdown, err
}

func (c *cloud) InstanceMetadata(_ context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	found, name, ok, err := c.machine(node)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, cloudprovider.InstanceNotFound
	}
	metadata := &cloudprovider.InstanceMetadata{
		ProviderID:   scheme + name,
		InstanceType: found.Type,
		Zone:         found.Zone,
		Region:       found.Region,
	}
	for _, address := range found.Addresses {
		metadata.NodeAddresses = append(metadata.NodeAddresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: address})
	}
	return metadata, nil
}

func key(service *v1.Service) string {
	return service.Namespace + "/" + service.Name
}

// All load balancers, as JSON.
func (c *cloud) balancers() ([]byte, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	return json.Marshal(c.made)
}

// Call with the lock held.
func (c *cloud) ask(service *v1.Service, nodes []*v1.Node) {
	asked := balancer{Spec: service.Spec, Nodes: []string{}}
	for _, node := range nodes {
		asked.Nodes = append(asked.Nodes, node.Name)
	}
	c.made[key(service)] = asked
}

func (c *cloud) GetLoadBalancer(_ context.Context, _ string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if _, ok := c.made[key(service)]; !ok {
		return nil, false, nil
	}
	return &v1.LoadBalancerStatus{Ingress: c.state.Balancers[key(service)]}, true, nil
}

func (c *cloud) GetLoadBalancerName(_ context.Context, _ string, service *v1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

func (c *cloud) EnsureLoadBalancer(_ context.Context, _ string, service *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.ask(service, nodes)
	addresses, ok := c.state.Balancers[key(service)]
	if !ok {
		return nil, api.NewRetryError("it has no address yet", patience)
	}
	return &v1.LoadBalancerStatus{Ingress: addresses}, nil
}

func (c *cloud) UpdateLoadBalancer(_ context.Context, _ string, service *v1.Service, nodes []*v1.Node) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if _, ok := c.made[key(service)]; !ok {
		return errors.New("there is no such load balancer")
	}
	c.ask(service, nodes)
	return nil
}

func (c *cloud) EnsureLoadBalancerDeleted(_ context.Context, _ string, service *v1.Service) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.made, key(service))
	return nil
}

func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return c, true }
func (c *cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return c, true }
func (c *cloud) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (c *cloud) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (c *cloud) ProviderName() string                                              { return "kubevirt" }
func (c *cloud) HasClusterID() bool                                                { return true }
