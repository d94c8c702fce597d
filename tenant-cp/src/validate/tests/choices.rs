//! Issuers, DNS and the endpoint's labels: the sentence for each mistake.

use super::*;
use crate::validate::admit;

fn plane(control_plane: &Value) -> Vec<String> {
    seen(&json!({"spec": {"controlPlane": control_plane}}))
}

fn issuers(issuers: &Value) -> Vec<String> {
    plane(&json!({"authentication": {"issuers": issuers}}))
}

#[test]
fn issuers_that_the_api_server_would_not_take_are_refused() {
    let fine = json!({"url": "https://login.example.com/realm", "audiences": ["k"]});
    assert_eq!(issuers(&json!([fine])), [""; 0]);
    let wrong = json!([
        {"url": "http://login.example.com", "audiences": ["k", "k"]},
        {"url": "https://kubernetes.default.svc.cluster.local", "audiences": ["k"], "usernamePrefix": "system:"},
        {"url": "https://a.example", "discoveryURL": "https://a.example/", "audiences": ["k"], "certificateAuthority": "PRIVATE KEY"},
        {"url": "https://a.example", "audiences": ["k"]},
        {"url": "https://me:hunter2@a.example", "audiences": ["k"]},
    ]);
    let expected = [
        "[0].url: http://login.example.com is not safe: begin with https://",
        "[0].audiences: name each audience once, and one at least",
        "[1].url: https://kubernetes.default.svc.cluster.local is the tenant cluster itself, whose \
         ServiceAccounts are known anyhow: remove it",
        "[1].usernamePrefix: system: is Kubernetes' own: choose another",
        "[2].discoveryURL: it is the same as url: remove it",
        "[2].certificateAuthority: there is a private key in it: give certificates alone, and make a \
         new key, because this one is no secret any more",
        "[3].url: https://a.example is named twice: put it into one entry",
        "[4].url: a user or password cannot be given here, where everybody may read it: leave it out",
    ];
    let expected = expected.map(|text| format!("spec.controlPlane.authentication.issuers{text}"));
    assert_eq!(issuers(&wrong), expected);
    let alone = json!({"spec": {
        "controlPlane": {"authentication": {"issuers": [fine]}},
        "addons": {"konnectivity": {"enabled": false}},
    }});
    assert_eq!(
        seen(&alone),
        [
            "spec.controlPlane.authentication.issuers: the API server asks issuers from the tenant \
          cluster's nodes, and reaches none without konnectivity: set \
          spec.addons.konnectivity.enabled to true, or remove the issuers"
        ]
    );
}

#[test]
fn zones_that_are_the_tenant_clusters_or_no_zones_are_refused() {
    let dns = |core_dns: &Value| seen(&json!({"spec": {"addons": {"coreDNS": core_dns}}}));
    let zone = |zone: &str| json!({"zone": zone, "servers": ["10.1.0.53"]});
    assert_eq!(
        dns(&json!({"forward": [zone("corp.example.com")]})),
        [""; 0]
    );
    let wrong = json!({"replicas": 0, "forward": [
        zone("x.cluster.local"),
        zone("a.example"),
        zone("a.example"),
        {"zone": "b.example", "servers": ["dns.example.com", "169.254.169.254"]},
    ]});
    let server = |server: &str| {
        format!(
            "\"{server}\" is not the address of a server, or is named before: write one such as \
             10.1.0.53"
        )
    };
    let field = "spec.addons.coreDNS";
    assert_eq!(
        dns(&wrong),
        [
            format!("{field}.replicas: 0 pods cannot be had: choose 1 to 32"),
            format!(
                "{field}.forward[0].zone: x.cluster.local is the tenant cluster's own: choose a zone \
                 outside of cluster.local"
            ),
            format!("{field}.forward[2].zone: a.example is named twice: put it into one entry"),
            format!(
                "{field}.forward[3].servers[0]: {}",
                server("dns.example.com")
            ),
            format!(
                "{field}.forward[3].servers[1]: {}",
                server("169.254.169.254")
            ),
        ]
    );
    let injected = dns(&json!({"forward": [zone("a {\n}\nb")]}));
    assert_eq!(injected.len(), 1);
}

#[test]
fn labels_of_the_endpoint_are_the_platforms_to_allow() {
    let labelled = |key: &str, value: &str| {
        tc(&json!({"spec": {"controlPlane": {"endpoint": {"labels": {key: value}}}}}))
    };
    let said = |tc: &TenantCluster, settings: &Settings| {
        let others: [TenantCluster; 0] = [];
        let problems = admit(None, tc, &others, settings);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let field = "spec.controlPlane.endpoint.labels";
    let mut settings = Settings::default();
    let pool = labelled("example.com/pool", "a");
    assert_eq!(
        said(&pool, &settings),
        [format!(
            "{field}[example.com/pool]: \"example.com/pool\" is not allowed here: remove it, or have \
             whoever runs the management cluster allow it (config.endpoint.labels of the chart)"
        )]
    );
    settings.endpoint.labels = vec!["example.com/".to_owned()];
    assert_eq!(said(&pool, &settings), [""; 0]);
    for own in ["covey.dev/tenant-cluster", "app.kubernetes.io/component"] {
        assert_eq!(
            said(&labelled(own, "a"), &settings),
            [format!(
                "{field}[{own}]: \"{own}\" is written by Covey itself: remove it"
            )]
        );
    }
    let spaced = said(&labelled("example.com/pool", "a b"), &settings);
    assert!(spaced[0].starts_with(&format!(
        "{field}[example.com/pool]: \"a b\" cannot be a value"
    )));
}

#[test]
fn namespaces_that_there_cannot_be_are_refused() {
    let exempt =
        |namespaces: &[&str]| plane(&json!({"podSecurity": {"exemptNamespaces": namespaces}}));
    assert_eq!(exempt(&["monitoring"]), [""; 0]);
    let field = "spec.controlPlane.podSecurity.exemptNamespaces";
    assert_eq!(
        exempt(&["a", "a", "B"]),
        [
            format!("{field}[1]: a is named twice: remove one of them"),
            format!(
                "{field}[2]: \"B\" is not the name of a namespace: use lower-case letters, digits and -"
            ),
        ]
    );
}
