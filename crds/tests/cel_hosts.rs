//! The CEL rules and the schema of Host, evaluated without an API server.
//!
//! Invariant: every rule in the schema is refused by at least one case here.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use serde_json::{Value, json};
use support::{check, create, refusals, schema};

mod support;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJd3vK9mUTbOkkXmHq4pZm3O4mUgoyb0xvZ1Hh6yq0pJ";

const NAME: &str = "the name must be a DNS label of at most 63 characters (lower-case letters, digits and -, no \
                    dots), because what the node is called by its provider holds it";
const FORM: &str = "address is neither an IP address nor a DNS name: write 192.0.2.10, 2001:db8::10 or \
                    edge-1.example.com, without a port (port is a field of its own)";
const NOT_DIALLED: &str = "address is the operator's own machine, its link, a group or a cloud's metadata, and is \
                           not dialled: write the address at which the machine is reached from the management \
                           cluster";
const KEYS: &str = "each of hostKeys is a line as /etc/ssh/ssh_host_ed25519_key.pub of the machine has it, \
                    \"ssh-ed25519 AAAA…\" or \"ecdsa-sha2-nistp256 AAAA…\", without the name of the machine in \
                    front; keys of other kinds are not taken";
const NO_ADDRESS: &str = "address is a name, and nodes are known by IP addresses: set nodeAddress to one that the \
                          machine itself has, as ip addr shows it there";
const NODE_FORM: &str = "nodeAddress is no IP address: write one that the machine itself has, as ip addr shows it \
                         there, such as 10.0.0.10";
const NOT_A_NODES: &str = "nodeAddress is loopback, link-local, a group or a cloud's metadata, at which no node is \
                           reached: write one that the machine itself has, as ip addr shows it there, such as \
                           10.0.0.10";
const ROOT: &str = "the user is not root, and only root can make the machine a node: set escalation to Sudo, and \
                    let sudo ask that user for no password";
const OVERLAY_FORM: &str = "overlayEndpoint is no IP address with a port: write 203.0.113.20:51820 or \
                            [2001:db8::20]:51820; names are not taken";
const OVERLAY_NOT_DIALLED: &str = "overlayEndpoint is loopback, link-local, a group or a cloud's metadata, at which no \
                                   other node reaches it: write the address and port at which nodes of other sites do";

fn host_named(name: &str, change: &Value) -> Value {
    let mut spec = json!({"address": "192.0.2.10", "user": "root", "sshKeySecretName": "rack-a-ssh", "hostKeys": [KEY]});
    for (key, value) in change.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Host",
        "metadata": {"name": name, "namespace": "team-a"}, "spec": spec})
}

fn host(change: &Value) -> Value {
    host_named("rack-a-1", change)
}

fn at(address: &str) -> Value {
    host(&json!({ "address": address, "nodeAddress": "10.0.0.10" }))
}

fn through(change: &Value) -> Value {
    let mut jump = json!({"address": "jump.example.com", "user": "covey", "sshKeySecretName": "jump-ssh", "hostKeys": [KEY]});
    for (key, value) in change.as_object().unwrap() {
        jump[key] = value.clone();
    }
    host(&json!({ "via": [jump] }))
}

#[test]
fn a_wrong_host_is_refused_with_one_sentence_and_every_rule_is_tested() {
    let none = json!({});
    let mut cases = vec![
        create(host_named(&"n".repeat(64), &none), NAME),
        create(host_named("a.b", &none), NAME),
        create(host_named("A", &none), NAME),
        create(host(&json!({"user": "covey"})), ROOT),
        create(host(&json!({"address": "edge-1.example.com"})), NO_ADDRESS),
        create(host(&json!({"address": "dead.beef"})), NO_ADDRESS),
        create(host(&json!({"nodeAddress": "edge-1"})), NODE_FORM),
        create(host(&json!({"nodeAddress": "10.0.0.4/24"})), NODE_FORM),
        create(host(&json!({"nodeAddress": "127.0.0.1"})), NOT_A_NODES),
        create(host(&json!({"nodeAddress": "fe80::1"})), NOT_A_NODES),
        create(host(&json!({"hostKeys": [format!("edge-1 {KEY}")]})), KEYS),
        create(
            host(&json!({"hostKeys": [KEY, "ssh-rsa AAAAB3NzaC1yc2E"]})),
            KEYS,
        ),
        create(
            host(&json!({"hostKeys": ["SHA256:uNiVztksCsDhcc0u9e8BrrQXVUpKZIDTMczCvj3tD2s"]})),
            KEYS,
        ),
        create(
            host(&json!({"hostKeys": [format!("{KEY} a\n{KEY}")]})),
            KEYS,
        ),
        create(through(&json!({"address": "jump.example.com:22"})), FORM),
        create(through(&json!({"address": "169.254.169.254"})), NOT_DIALLED),
        create(through(&json!({"hostKeys": ["x"]})), KEYS),
    ];
    for address in [
        "192.0.2.10:22",
        "root@192.0.2.10",
        "[2001:db8::1]",
        "edge 1",
        "-edge",
        "edge-",
        "10.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "192.0.2",
        "192.0.2.256",
        "192.0.2.010",
        "2001:db8::192.0.2.1",
        "2001:db8::1%eth0",
        "a..b",
    ] {
        cases.push(create(at(address), FORM));
    }
    for endpoint in [
        "203.0.113.20",
        "203.0.113.20:0",
        "203.0.113.20:65536",
        "203.0.113.20:051820",
        "203.0.113.256:51820",
        "2001:db8::20:51820",
        "[2001:db8::20]",
        "edge-1.example.com:51820",
        "203.0.113.20:51820 ",
        "203.0.113.20:51820,x",
    ] {
        let new = host(&json!({ "overlayEndpoint": endpoint }));
        cases.push(create(new, OVERLAY_FORM));
    }
    for endpoint in [
        "127.0.0.1:51820",
        "0.0.0.0:51820",
        "169.254.169.254:80",
        "168.63.129.16:80",
        "100.100.100.200:80",
        "224.0.0.1:51820",
        "255.255.255.255:51820",
        "[::1]:51820",
        "[::]:51820",
        "[::ffff:7f00:1]:51820",
        "[fe80::1]:51820",
        "[FF02::1]:51820",
        "[fd00:ec2::254]:80",
    ] {
        let new = host(&json!({ "overlayEndpoint": endpoint }));
        cases.push(create(new, OVERLAY_NOT_DIALLED));
    }
    for address in [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "169.254.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "239.1.1.1",
        "255.255.255.255",
        "168.63.129.16",
        "100.100.100.200",
        "::",
        "::1",
        "0:0:0:0:0:0:0:1",
        "0000:0000:0000:0000:0000:0000:0000:0001",
        "::ffff:7f00:1",
        "0:0:0:0:0:FFFF:7f00:1",
        "fe80::1",
        "FEBF::1",
        "ff02::1",
        "fd00:ec2::254",
        "localhost",
        "Localhost",
        "a.localhost",
        "metadata",
        "metadata.google.internal",
        "instance-data",
    ] {
        cases.push(create(at(address), NOT_DIALLED));
    }
    check("Host", &cases);
}

#[test]
fn a_right_host_is_let_through() {
    let schema = schema("Host");
    let keys = json!({"hostKeys": [
        format!("{KEY} root@edge-1"),
        "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBA==",
    ]});
    let more = json!({"port": 2222, "user": "covey", "escalation": "Sudo", "labels": {"rack": "a"}, "maintenance": true, "adopt": true});
    let mut right = vec![
        host(&keys),
        host(&more),
        through(&json!({})),
        through(&json!({"port": 443})),
    ];
    for endpoint in [
        "203.0.113.20:51820",
        "10.0.0.20:1",
        "22.4.0.1:65535",
        "[2001:db8::20]:51820",
        "[fd00:1::20]:51820",
    ] {
        right.push(host(&json!({ "overlayEndpoint": endpoint })));
    }
    for address in [
        "192.0.2.10",
        "10.0.0.1",
        "100.64.0.1",
        "2.25.0.1",
        "24.0.0.1",
        "2001:db8::10",
        "2001:DB8:0:0:0:0:0:10",
        "fd00:1::1",
        "edge-1",
        "edge-1.example.com",
        "Edge.Example.COM",
        "metadata.example.com",
        "localhost.example.com",
        "1.example.com",
    ] {
        right.push(at(address));
    }
    for new in right {
        assert_eq!(refusals(&schema, None, &new), [""; 0], "{new}");
    }
}

#[test]
fn one_jump_host_is_named_once_and_no_key_twice() {
    let spec = &schema("Host")["properties"]["spec"]["properties"];
    let via = &spec["via"];
    assert_eq!(via["x-kubernetes-list-type"], "map");
    assert_eq!(
        via["x-kubernetes-list-map-keys"],
        json!(["address", "port"])
    );
    for keys in [&spec["hostKeys"], &via["items"]["properties"]["hostKeys"]] {
        assert_eq!(keys["x-kubernetes-list-type"], "set");
        assert_eq!(
            (&keys["minItems"], &keys["maxItems"]),
            (&json!(1), &json!(8))
        );
    }
    for port in [&spec["port"], &via["items"]["properties"]["port"]] {
        assert_eq!(port["default"], 22);
        assert_eq!(
            (port["minimum"].as_f64(), port["maximum"].as_f64()),
            (Some(1.0), Some(65535.0))
        );
    }
}
