//! Files of the kube-apiserver, read as it reads them.

use super::*;

fn issuer() -> Issuer {
    serde_json::from_value(json!({
        "url": "https://login.example.com", "audiences": ["kubernetes", "k8s"],
    }))
    .unwrap()
}

/// Whoever writes a TenantCluster would otherwise have the control plane ask what he likes in the
/// management cluster's network.
#[test]
fn issuers_are_asked_from_the_tenants_nodes_and_their_users_have_a_prefix() {
    let plain: Value = serde_saphyr::from_str(&authentication(&[])).unwrap();
    assert_eq!(plain["jwt"], Value::Null);
    let read: Value = serde_saphyr::from_str(&authentication(&[issuer()])).unwrap();
    assert_eq!(read["anonymous"], plain["anonymous"]);
    assert_eq!(
        read["jwt"],
        json!([{
            "issuer": {
                "url": "https://login.example.com",
                "audiences": ["kubernetes", "k8s"],
                "audienceMatchPolicy": "MatchAny",
                "egressSelectorType": "cluster",
            },
            "claimMappings": {
                "username": {"claim": "sub", "prefix": "https://login.example.com#"},
            },
        }])
    );
    let more = Issuer {
        discovery_url: Some("https://a.example/.well-known/openid-configuration".to_owned()),
        certificate_authority: Some("PEM".to_owned()),
        username_claim: "email".to_owned(),
        username_prefix: Some(String::new()),
        groups_claim: Some("groups".to_owned()),
        groups_prefix: Some("oidc:".to_owned()),
        required_claims: [("hd".to_owned(), "example.com".to_owned())].into(),
        ..issuer()
    };
    let read: Value = serde_saphyr::from_str(&authentication(&[more])).unwrap();
    let jwt = &read["jwt"][0];
    assert_eq!(jwt["issuer"]["egressSelectorType"], "cluster");
    assert_eq!(jwt["issuer"]["certificateAuthority"], "PEM");
    assert_eq!(
        jwt["claimMappings"],
        json!({
            "username": {"claim": "email", "prefix": ""},
            "groups": {"claim": "groups", "prefix": "oidc:"},
        })
    );
    assert_eq!(
        jwt["claimValidationRules"],
        json!([{"claim": "hd", "requiredValue": "example.com"}])
    );
}

#[test]
fn pods_are_held_to_what_was_chosen_but_for_those_of_addons() {
    assert_eq!(admission(&PodSecurity::default()), ADMISSION);
    let chosen: PodSecurity = serde_json::from_value(json!({
        "enforce": "baseline", "warn": "restricted", "exemptNamespaces": ["monitoring"],
    }))
    .unwrap();
    let plain: Value = serde_saphyr::from_str(ADMISSION).unwrap();
    let read: Value = serde_saphyr::from_str(&admission(&chosen)).unwrap();
    let plugins = read["plugins"].as_array().unwrap();
    assert_eq!(plugins[0], plain["plugins"][0]);
    assert_eq!(plugins.len(), 2);
    assert_eq!(plugins[1]["name"], "PodSecurity");
    let configuration = &plugins[1]["configuration"];
    assert_eq!(
        configuration["defaults"],
        json!({
            "enforce": "baseline", "enforce-version": "latest",
            "warn": "restricted", "warn-version": "latest",
        })
    );
    assert_eq!(
        configuration["exemptions"]["namespaces"],
        json!(["kube-flannel", "kube-system", "monitoring"])
    );
}
