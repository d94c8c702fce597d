package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The name of qemu's channel to the agent of a guest.
const channel = "org.qemu.guest_agent.0"

// How often it says what it says first.
const first = 2

// agent is the guest agent of a hostile machine: it answers questions about interfaces with the addresses
// given and `more` made-up ones at the machine's own interface, from the third answer on `later` of them, and with the
// addresses given at a second one with the same MAC, of which KubeVirt 1.9 takes the first alone. Everything else it
// answers as the real one would, as far as it is asked. It prints what it was asked, and how many addresses it made up.
func agent(more, later int, addresses []string) {
	times := 0
	port := open()
	commands := []object{}
	for _, name := range []string{"guest-sync", "guest-sync-delimited", "guest-ping", "guest-get-time", "guest-info",
		"guest-shutdown", "guest-network-get-interfaces", "guest-get-fsinfo", "guest-get-host-name",
		"guest-get-users", "guest-get-timezone", "guest-get-osinfo", "guest-fsfreeze-status"} {
		commands = append(commands, object{"name": name, "enabled": true, "success-response": true})
	}
	answers := map[string]any{
		"guest-ping":            object{},
		"guest-info":            object{"version": "8.0.0", "supported_commands": commands},
		"guest-get-fsinfo":      []object{},
		"guest-get-users":       []object{},
		"guest-get-host-name":   object{"host-name": "elsewhere"},
		"guest-get-timezone":    object{"zone": "UTC", "offset": 0},
		"guest-get-osinfo":      object{"id": "debian", "name": "Debian", "version-id": "12"},
		"guest-fsfreeze-status": "thawed",
	}
	lines := bufio.NewReader(port)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			// Nobody is at the host's end: libvirt comes once it heard that the guest's is open.
			time.Sleep(200 * time.Millisecond)
			continue
		}
		check(err)
		var asked struct {
			Execute   string
			Arguments struct{ ID json.Number }
		}
		start := bytes.IndexByte(line, '{')
		if start < 0 || json.Unmarshal(line[start:], &asked) != nil {
			continue
		}
		answer := object{"error": object{"class": "CommandNotFound", "desc": asked.Execute + " is not known"}}
		if known, found := answers[asked.Execute]; found {
			answer = object{"return": known}
		}
		said, before := asked.Execute, ""
		switch asked.Execute {
		case "guest-network-get-interfaces":
			if times == first {
				more = later
			}
			times++
			answer = object{"return": interfaces(more, addresses)}
			said = fmt.Sprintf("%s %d", said, more)
		case "guest-sync-delimited":
			before = "\xff"
			fallthrough
		case "guest-sync":
			answer = object{"return": asked.Arguments.ID}
		}
		text, err := json.Marshal(answer)
		check(err)
		_, err = port.Write([]byte(before + string(text) + "\n"))
		check(err)
		fmt.Println(said)
	}
}

// open opens the guest's end of the channel.
func open() *os.File {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	check(err)
	for _, file := range names {
		name, err := os.ReadFile(file)
		check(err)
		if strings.TrimSpace(string(name)) == channel {
			port, err := os.OpenFile(filepath.Join("/dev", filepath.Base(filepath.Dir(file))), os.O_RDWR, 0)
			check(err)
			return port
		}
	}
	log.Fatalf("no port of the name %s among %v", channel, names)
	return nil
}

func interfaces(more int, addresses []string) []object {
	made := []string{}
	for number := range more {
		made = append(made, fmt.Sprintf("10.250.%d.%d", number/250, 1+number%250))
	}
	mac := own()
	return []object{
		{"name": "eth0", "hardware-address": mac, "ip-addresses": listed(append(addresses, made...))},
		{"name": "eth1", "hardware-address": mac, "ip-addresses": listed(addresses)},
	}
}

func listed(addresses []string) []object {
	all := []object{}
	for _, address := range addresses {
		kind, prefix := "ipv4", 24
		if net.ParseIP(address).To4() == nil {
			kind, prefix = "ipv6", 64
		}
		all = append(all, object{"ip-address": address, "ip-address-type": kind, "prefix": prefix})
	}
	return all
}

// own is the MAC of the machine's own interface: the one with a device.
func own() string {
	devices, err := filepath.Glob("/sys/class/net/*/device")
	check(err)
	for _, device := range devices {
		mac, err := os.ReadFile(filepath.Join(filepath.Dir(device), "address"))
		check(err)
		return strings.TrimSpace(string(mac))
	}
	log.Fatal("the machine has no interface")
	return ""
}
