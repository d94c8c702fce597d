//! What is seen from here for `covey doctor`: contexts that lead into tenant clusters, and whether an endpoint answers.
//!
//! Invariant: no credential is sent to an endpoint, and no program of a kubeconfig is run for it.

use std::time::Duration;

use api::TenantCluster;
use insight::facts::Facts;
use insight::here::{Endpoint, Here, Kubeconfig as Usable, Lead};
use kit_client::errors::chain;
use kit_objects::known::Known;
use kube::ResourceExt as _;
use kube::config::Kubeconfig;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::args::Global;
use crate::connect::{kubeconfig, nobody};
use crate::exit::Failure;
use crate::lead;

/// How long an endpoint may take to be reached, and then to answer.
const REACH: Duration = Duration::from_secs(3);

/// The facts where no client could be made of the kubeconfig.
pub(super) fn unusable(failure: &Failure) -> Facts {
    Facts {
        now: jiff::Timestamp::now(),
        here: Here {
            kubeconfig: Usable::Unusable {
                what: failure.what.clone(),
                mend: failure.mend.clone(),
            },
            ..Here::default()
        },
        ..Facts::default()
    }
}

/// What is seen from here; of one tenant cluster also whether its endpoint answers.
pub(super) async fn seen(global: &Global, cluster: Option<&TenantCluster>) -> Here {
    let kubeconfig = kubeconfig(global);
    let leads = kubeconfig.as_ref().map(leads);
    let mut here = Here {
        kubeconfig: Usable::Usable,
        leads: leads.map_or_else(Known::default, Known::Known),
        ..Here::default()
    };
    if let Some(cluster) = cluster
        && let Some(answer) = endpoint(global, cluster, kubeconfig, &here).await
    {
        let key = (cluster.namespace().unwrap_or_default(), cluster.name_any());
        here.endpoints.insert(key, answer);
    }
    here
}

fn leads(kubeconfig: &Kubeconfig) -> Vec<Lead> {
    let all = lead::all(kubeconfig).into_iter();
    let all = all.map(|(context, lead, server)| Lead {
        context,
        namespace: lead.namespace,
        name: lead.name,
        uid: lead.uid,
        server,
    });
    all.collect()
}

/// What an endpoint answers; none where there is none yet.
async fn endpoint(
    global: &Global,
    cluster: &TenantCluster,
    kubeconfig: Option<Kubeconfig>,
    here: &Here,
) -> Option<Endpoint> {
    let at = cluster.status.as_ref()?.endpoint.as_ref()?;
    let port = u16::try_from(at.port).ok()?;
    match timeout(REACH, TcpStream::connect((at.host.as_str(), port))).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            return Some(Endpoint::Silent {
                what: error.to_string(),
            });
        }
        Err(_) => {
            let what = format!("no answer within {} s", REACH.as_secs());
            return Some(Endpoint::Silent { what });
        }
    }
    // Without an authority at hand nobody can say who answers.
    let leads = here.leads.as_ref().there();
    let server = at.url();
    let lead = leads.into_iter().flatten().find(|lead| {
        let is_its = Some(&lead.namespace) == cluster.metadata.namespace.as_ref()
            && lead.name == cluster.name_any();
        let is_this = cluster.uid().is_some_and(|uid| uid == lead.uid);
        is_its && is_this && lead.server.trim_end_matches('/') == server
    });
    let (Some(lead), Some(kubeconfig)) = (lead, kubeconfig) else {
        return Some(Endpoint::Answered);
    };
    let client = nobody(kubeconfig, &lead.context, global).await.ok()?;
    match timeout(REACH, client.apiserver_version()).await {
        Ok(Err(error)) => Some(answered(&error)),
        Ok(Ok(_)) | Err(_) => Some(Endpoint::Answered),
    }
}

/// What an error says of who answered: a refusal is an answer.
fn answered(error: &kube::Error) -> Endpoint {
    let said = chain(error);
    let lower = said.to_ascii_lowercase();
    let is_of_tls = ["certificate", "unknownissuer", "notvalidforname"];
    let is_of_tls = is_of_tls.iter().any(|word| lower.contains(word));
    match error {
        kube::Error::Api(_) => Endpoint::Answered,
        _ if is_of_tls => Endpoint::NotBelieved { what: said },
        _ => Endpoint::Answered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_refuses_has_answered() {
        let refused = kube::core::Status::failure("Unauthorized", "Unauthorized").with_code(401);
        let refused = kube::Error::Api(Box::new(refused));
        assert_eq!(answered(&refused), Endpoint::Answered);
        let tls = "invalid peer certificate: UnknownIssuer";
        let tls = kube::Error::Service(tls.into());
        let Endpoint::NotBelieved { what } = answered(&tls) else {
            panic!("{:?}", answered(&tls));
        };
        assert!(what.contains("UnknownIssuer"), "{what}");
        let broken = kube::Error::Service("connection reset".into());
        assert_eq!(answered(&broken), Endpoint::Answered);
    }
}
