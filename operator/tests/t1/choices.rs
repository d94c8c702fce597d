//! What users choose of their kube-apiserver, on a real one with the flags and files that theirs has.
//!
//! Invariant: nothing but ports, folders and addresses is other than in a cluster.

use anyhow::{Context as _, Result, ensure};
use http::Request;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tenant_cp::Settings;
use testkit::waiting::ask_until;

use crate::keys::{ControlPlane, tenant_of};
use crate::support::PATIENCE;

/// All of it at once: rules that ask for bodies, webhooks that nobody answers, an issuer of one's own.
fn choices() -> Value {
    let kinds = json!([{ "group": "", "resources": ["configmaps", "secrets"] }]);
    json!({ "controlPlane": {
        "audit": {
            "rules": [
                { "level": "None", "verbs": ["get", "list", "watch"] },
                { "level": "None", "nonResourceURLs": ["/readyz*", "/livez"] },
                { "level": "RequestResponse", "namespaces": ["default"], "resources": kinds },
            ],
            "webhook": { "url": "https://audit.example.com/events" },
        },
        "authorization": { "webhooks": [
            { "name": "policy", "url": "https://policy.example.com/authorize" },
        ] },
        "serviceAccounts": {
            "issuer": "https://oidc.example.com/demo",
            "acceptedIssuers": ["https://old.example.com/demo"],
            "audiences": ["https://api.example.com"],
        },
    } })
}

#[tokio::test]
async fn api_server_does_what_was_chosen_and_writes_down_no_secret() -> Result<()> {
    let settings: Settings = serde_json::from_value(json!({
        "apiServer": { "auditWebhook": true, "authorizationWebhooks": true },
    }))?;
    let valid = tenant_of(&choices(), &settings)?;
    let Some(plane) = ControlPlane::start_of(valid).await? else {
        return Ok(());
    };
    let client = plane.administrator()?;

    let request = Request::get("/.well-known/openid-configuration").body(Vec::new())?;
    let discovery: Value = client.request(request).await?;
    assert_eq!(discovery["issuer"], "https://oidc.example.com/demo");
    let keys = "https://oidc.example.com/demo/openid/v1/jwks";
    assert_eq!(discovery["jwks_uri"], keys);

    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    let account = serde_json::from_value(json!({ "metadata": { "name": "app" } }))?;
    accounts.create(&PostParams::default(), &account).await?;
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let token = accounts
        .create_token_request("app", &PostParams::default(), &request)
        .await?;
    let spec = token.spec;
    for audience in [
        "https://kubernetes.default.svc.cluster.local",
        "https://oidc.example.com/demo",
        "https://api.example.com",
    ] {
        ensure!(
            spec.audiences.iter().any(|it| it == audience),
            "{:?}",
            spec.audiences
        );
    }

    let text = |text: &str| json!({ "metadata": { "name": "written-down" }, "stringData": { "key": text } });
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let secret = serde_json::from_value(text("correct-horse"))?;
    secrets.create(&PostParams::default(), &secret).await?;
    let map = serde_json::from_value(json!({
        "metadata": { "name": "written-down" }, "data": { "key": "battery-staple" },
    }))?;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.create(&PostParams::default(), &map).await?;
    let events = ask_until("both are written down", PATIENCE, || {
        let log = plane.log();
        let events = log.lines().filter(|line| line.contains("audit.k8s.io/v1"));
        let events: Vec<String> = events
            .filter(|line| line.contains("written-down"))
            .map(str::to_owned)
            .collect();
        let of = |kind: &str| events.iter().any(|event| event.contains(kind));
        let both = of("\"resource\":\"secrets\"") && of("\"resource\":\"configmaps\"");
        let answer = match both {
            true => Ok(events),
            false => Err(format!("{events:?}")),
        };
        async move { Ok(answer) }
    })
    .await?;
    ensure!(
        events.iter().any(|event| event.contains("battery-staple")),
        "{events:?}"
    );
    let token = token.status.context("no token")?.token;
    let encoded = "Y29ycmVjdC1ob3JzZQ==";
    for kept in ["correct-horse", encoded, &token] {
        ensure!(!plane.log().contains(kept), "{kept} is written down");
    }
    Ok(())
}
