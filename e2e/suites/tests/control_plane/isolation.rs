//! Needs: operator
//!
//! Two tenants do not know each other: certificates and tokens of one are nobody to the other.

use anyhow::{Result, bail, ensure};
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::{Namespace, ServiceAccount},
};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::json;
use suites::{
    cluster::{
        Tenant, credentials,
        credentials::Identity::{self, Certificate, Token},
    },
    scenario::{self, PATIENCE},
};

#[tokio::test]
async fn two_tenants_refuse_each_others_certificates_and_tokens() {
    scenario::run("swapped", swapped).await;
}

async fn swapped(s: &scenario::Scenario) -> Result<()> {
    let (one, two) = (
        s.tenant("one", |_| {}).await?,
        s.tenant("two", |_| {}).await?,
    );
    let (one, two) = (Known::of(&one).await?, Known::of(&two).await?);
    ensure!(
        one.server != two.server,
        "both tenants answer at {}",
        one.server
    );
    ensure!(
        one.authority != two.authority,
        "both tenants have the same authority"
    );
    for (owner, other) in [(&one, &two), (&two, &one)] {
        for identity in &owner.identities {
            // Let in at home, so a refusal elsewhere means something.
            list(&owner.server, &owner.authority, identity).await?;
            match list(&other.server, &other.authority, identity).await {
                Err(kube::Error::Api(status)) if status.code == 401 => {}
                answer => bail!("{identity:?} of one tenant got {answer:?} from the other"),
            }
        }
        // And a client that trusts its own tenant's authority does not talk to the other at all.
        let stranger = list(&other.server, &owner.authority, &owner.identities[0]).await;
        ensure!(
            !matches!(stranger, Ok(_) | Err(kube::Error::Api(_))),
            "trusts {stranger:?}"
        );
    }
    Ok(())
}

struct Known {
    server: String,
    authority: Vec<u8>,
    identities: Vec<Identity>,
}

impl Known {
    async fn of(tenant: &Tenant) -> Result<Self> {
        let admin = tenant.usable(PATIENCE).await?.client;
        tenant.settled(PATIENCE).await?;
        let credentials::Access {
            server,
            authority,
            certificate,
            key,
        } = credentials::parts(&tenant.kubeconfig(PATIENCE).await?)?;
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
        let account = json!({ "metadata": { "name": "reader" } });
        let create = PostParams::default();
        accounts
            .create(&create, &serde_json::from_value(account)?)
            .await?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": "reader" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "cluster-admin" },
            "subjects": [{ "kind": "ServiceAccount", "name": "reader", "namespace": "default" }],
        });
        let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(admin);
        bindings
            .create(&create, &serde_json::from_value(binding)?)
            .await?;
        let request: TokenRequest = serde_json::from_value(json!({ "spec": { "audiences": [] } }))?;
        let answer = accounts
            .create_token_request("reader", &create, &request)
            .await?;
        let token = answer.status.map(|status| status.token).unwrap_or_default();
        let controller = Certificate {
            certificate: tenant
                .secret("controller-manager", "controller-manager.crt")
                .await?,
            key: tenant
                .secret("controller-manager", "controller-manager.key")
                .await?,
        };
        let identities = vec![Certificate { certificate, key }, Token(token), controller];
        Ok(Self {
            server,
            authority,
            identities,
        })
    }
}

async fn list(server: &str, authority: &[u8], identity: &Identity) -> Result<usize, kube::Error> {
    let client = credentials::client(server, authority, identity).await;
    let client = client.map_err(|error| kube::Error::Service(error.into()))?;
    let namespaces: Api<Namespace> = Api::all(client);
    Ok(namespaces.list(&ListParams::default()).await?.items.len())
}
