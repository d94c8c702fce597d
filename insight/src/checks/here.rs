//! What is seen from where somebody asks: the kubeconfig, endpoints, and kubeconfigs of tenant clusters that there were.
//!
//! Invariant: that an endpoint is not reached from here says nothing of the tenant cluster, so it is no error.

use api::TenantCluster;
use api::tenant_cluster::HibernationPhase;
use kit_objects::known::Known;
use kube::ResourceExt as _;

use crate::check::Check;
use crate::facts::Facts;
use crate::finding::{Finding, Level, Scope, Subject};
use crate::here::{Endpoint, Kubeconfig, Lead};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Kubeconfig::Unusable { what, mend } = &facts.here.kubeconfig {
        let here = Subject::management();
        found.push(Finding::new(
            Check::Kubeconfig,
            Level::Error,
            here,
            what,
            mend,
        ));
    }
    for cluster in facts.clusters.as_ref().there().into_iter().flatten() {
        let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
        let scope = Scope {
            cluster: Some((namespace.clone(), name.clone())),
            pool: None,
        };
        let subject = Subject::new("TenantCluster", &namespace, &name);
        let answered = facts.here.endpoints.get(&(namespace, name));
        let told = answered.and_then(|answer| endpoint(cluster, answer, &subject));
        let leads = match &facts.here.leads {
            Known::Known(leads) => leads.as_slice(),
            Known::Absent | Known::Unknown { .. } => &[],
        };
        found.extend(told.map(|finding| finding.within(&scope)));
        let told = leads
            .iter()
            .filter_map(|lead| of_another(cluster, lead, &subject));
        found.extend(told.map(|finding| finding.within(&scope)));
    }
    found
}

/// What an endpoint answered from here; none of one that sleeps, because nothing is to answer.
fn endpoint(cluster: &TenantCluster, answer: &Endpoint, subject: &Subject) -> Option<Finding> {
    let status = cluster.status.as_ref()?;
    let hibernation = status.hibernation.as_ref();
    if hibernation.is_some_and(|told| told.phase != HibernationPhase::Awake) {
        return None;
    }
    let at = status.endpoint.as_ref()?;
    let (at, name) = (format!("{}:{}", at.host, at.port), &subject.name);
    let exposure = cluster.spec.control_plane.endpoint.type_.as_str();
    let finding = match answer {
        Endpoint::Answered => return None,
        Endpoint::Silent { what } => {
            let is_inner = exposure == "ClusterIP";
            let cause = format!("{at} ({exposure}) is not reached from here: {what}");
            let (level, mend) = match is_inner {
                // It is as it was asked for.
                true => (
                    Level::Info,
                    format!(
                        "a ClusterIP is reached inside the management cluster alone: `covey connect {name} -- kubectl get nodes` leads there"
                    ),
                ),
                false => (
                    Level::Warning,
                    format!(
                        "look at firewalls and `spec.controlPlane.endpoint.sourceRanges`; `covey connect {name} -- kubectl get nodes` leads there meanwhile"
                    ),
                ),
            };
            Finding::new(Check::EndpointReach, level, subject.clone(), &cause, &mend)
        }
        Endpoint::NotBelieved { what } => {
            let cause = format!("what answers at {at} is not believed: {what}");
            let mend = mend_of(what, name);
            let check = Check::EndpointTls;
            Finding::new(check, Level::Warning, subject.clone(), &cause, &mend)
        }
    };
    Some(finding)
}

/// What mends it that a certificate is not believed, by the words of the error.
fn mend_of(what: &str, name: &str) -> String {
    let said = what.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&["notvalidforname", "not valid for name"]) {
        "name the host in `spec.controlPlane.endpoint.host` or `certSANs`, so that it is in the certificate".to_owned()
    } else if has(&["expired"]) {
        "the operator renews certificates: the condition CertificatesReady says what keeps it; set the clock here if it is wrong".to_owned()
    } else {
        format!(
            "another cluster or a proxy answers there, or the authority was turned: `covey kubeconfig {name} --merge` gets it anew"
        )
    }
}

/// A context that is called after the tenant cluster, and leads to one of before.
fn of_another(cluster: &TenantCluster, lead: &Lead, subject: &Subject) -> Option<Finding> {
    let is_its = Some(&lead.namespace) == subject.namespace.as_ref() && lead.name == subject.name;
    if !is_its {
        return None;
    }
    let endpoint = cluster
        .status
        .as_ref()
        .and_then(|status| status.endpoint.as_ref());
    let server = endpoint.map(api::tenant_cluster::EndpointStatus::url);
    let context = &lead.context;
    let is_other = !lead.uid.is_empty() && cluster.uid().is_some_and(|uid| uid != lead.uid);
    let is_elsewhere = server
        .as_ref()
        .is_some_and(|server| server.trim_end_matches('/') != lead.server.trim_end_matches('/'));
    let cause = if is_other {
        format!(
            "the context {context} of the kubeconfig is of an earlier tenant cluster of this name, and its credentials are no good"
        )
    } else if is_elsewhere {
        format!(
            "the context {context} of the kubeconfig leads to {}, and the endpoint is {}",
            lead.server,
            server.unwrap_or_default()
        )
    } else {
        return None;
    };
    let mend = format!(
        "`covey kubeconfig {} --merge --context-name {context}` writes it anew",
        subject.name
    );
    let check = Check::ApiAuth;
    Some(Finding::new(
        check,
        Level::Warning,
        subject.clone(),
        &cause,
        &mend,
    ))
}
