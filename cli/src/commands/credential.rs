//! `covey credential get`: what kubectl asks for where a kubeconfig says so, and the AccessGrant behind it.
//!
//! Invariant: the key is made here and leaves this machine nowhere; while a certificate is good nothing is asked, and of
//! many that need one at once, one asks.

use std::time::Duration;

use api::access_grant::{LEAST_SECONDS, MOST_SECONDS, token_purpose};
use api::{AccessGrant, AccessGrantSpec, TenantCluster};
use futures::{StreamExt as _, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kit_client::errors::chain;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use kube::config::Kubeconfig;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use pki::sealed::OpeningKey;
use tokio::time::{Instant, timeout_at};

use super::change::MANAGER;
use super::describe::find;
use crate::args::Global;
use crate::args::access::{Get, GrantWanted};
use crate::connect::{Connection, connect};
use crate::credential::{Answer, Issued, Kept, Place, answer};
use crate::credential_cache::Cache;
use crate::exit::{Exit, Failure};
use crate::lead;
use crate::output::{result, structured};

/// How long a certificate is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// `covey credential get`.
pub(super) async fn get(global: &Global, args: &Get) -> Result<Exit, Failure> {
    let connection = match outside(global) {
        Some(global) => connect(&global).await?,
        None => connect(global).await?,
    };
    let wanted = Wanted {
        name: &args.cluster,
        uid: &args.uid,
        rights: &args.rights,
    };
    let kept = obtain(global, &connection, &wanted).await?;
    let told = structured(&kept.exec_credential(), crate::args::Format::Json)?;
    result(&told)?;
    Ok(Exit::Done)
}

/// The flags with the user's own kubeconfig, where the one that kubectl was started with does not lead to the management
/// cluster: it is often the very file that has this command in it.
fn outside(global: &Global) -> Option<Global> {
    let context = global.context.as_ref()?;
    if global.kubeconfig.is_some() {
        return None;
    }
    let read = Kubeconfig::read().ok()?;
    if lead::leads_outside(&read, context) {
        return None;
    }
    let own = std::env::home_dir()?.join(".kube/config");
    Some(Global {
        kubeconfig: Some(own),
        ..global.clone()
    })
}

/// What is asked for.
pub(super) struct Wanted<'a> {
    /// The tenant cluster.
    pub(super) name: &'a str,
    /// Its UID.
    pub(super) uid: &'a str,
    /// Which rights.
    pub(super) rights: &'a GrantWanted,
}

/// A certificate that is good for a while: one that is kept, or a new one.
pub(super) async fn obtain(
    global: &Global,
    connection: &Connection,
    wanted: &Wanted<'_>,
) -> Result<Kept, Failure> {
    let seconds = seconds(wanted.rights.ttl)?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let rights = wanted.rights;
    let place = Place {
        server: connection.server.clone(),
        login: [text(&connection.context), text(&global.as_user)],
        cluster: [
            connection.namespace.clone(),
            wanted.name.to_owned(),
            wanted.uid.to_owned(),
        ],
        rights: [
            rights.profile.clone(),
            text(&rights.user),
            text(&rights.group),
        ],
        seconds: u64::from(seconds),
        is_token: rights.token,
    };
    let (cache, name) = (Cache::of_user()?, place.name());
    if let Some(kept) = cache
        .read(&name)
        .filter(|kept| kept.is_fresh(Timestamp::now()))
    {
        return Ok(kept);
    }
    // It may take as long as somebody else waits for the same certificate.
    let locked = tokio::task::spawn_blocking(move || cache.lock(&name)).await;
    let locked = locked.map_err(|error| {
        let what = format!("the lock of the certificate was lost: {error}");
        Failure::new(Exit::Failed, &what, "try again")
    })??;
    if let Some(kept) = locked.read().filter(|kept| kept.is_fresh(Timestamp::now())) {
        return Ok(kept);
    }
    let kept = Box::pin(ask(connection, wanted, seconds)).await?;
    locked.write(&kept)?;
    Ok(kept)
}

/// How long, in whole seconds; what is outside of what Kubernetes and Covey give is refused before anything is asked.
fn seconds(ttl: Duration) -> Result<u32, Failure> {
    let seconds = u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX);
    if (LEAST_SECONDS..=MOST_SECONDS).contains(&seconds) {
        return Ok(seconds);
    }
    let what = format!(
        "--ttl has to be at least {}m, because Kubernetes signs nothing shorter, and at most {}h",
        LEAST_SECONDS / 60,
        MOST_SECONDS / 3600
    );
    Err(Failure::new(Exit::Refused, &what, "try `--ttl 1h`"))
}

/// Asks for a new one, and waits for it.
async fn ask(
    connection: &Connection,
    wanted: &Wanted<'_>,
    ttl_seconds: u32,
) -> Result<Kept, Failure> {
    let (client, namespace) = (&connection.client, &connection.namespace);
    let cluster = find(client, namespace, wanted.name).await?;
    is_the_same(&cluster, wanted)?;
    let user = match &wanted.rights.user {
        Some(user) => user.clone(),
        None => own_name(client).await?,
    };
    let (request, key) = pki::issue::request(wanted.name).map_err(|error| {
        let what = format!("cannot make a key: {}", chain(&error));
        Failure::new(Exit::Failed, &what, "look at the system's random numbers")
    })?;
    let opens = match wanted.rights.token {
        true => Some(OpeningKey::generate().ok_or_else(no_random)?),
        false => None,
    };
    let mut grant = AccessGrant::new(
        "",
        AccessGrantSpec {
            cluster_name: wanted.name.to_owned(),
            profile: wanted.rights.profile.clone(),
            user,
            groups: wanted.rights.group.clone().into_iter().collect(),
            ttl_seconds,
            request: Some(request),
            token_key: opens.as_ref().map(OpeningKey::public),
            secret_name: None,
        },
    );
    grant.metadata = ObjectMeta {
        generate_name: Some(format!("{}-", wanted.name)),
        ..ObjectMeta::default()
    };
    let grants: Api<AccessGrant> = Api::namespaced(client.clone(), namespace);
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let made = grants.create(&params, &grant).await;
    let made = made.map_err(|error| {
        let act = format!("make an AccessGrant of {} in {namespace}", wanted.name);
        Failure::of(&act, &error)
    })?;
    let since = Timestamp::now();
    let name = made.name_any();
    let issued = *issued(&grants, &name).await?;
    let mut until = time(&issued.until).ok_or_else(|| misfit(&name, "no time at which it ends"))?;
    let token = match &opens {
        None => None,
        Some(key) => {
            let uid = made.uid().unwrap_or_default();
            let opened = opened(&issued, key, &uid);
            let Some((token, ends)) = opened else {
                // Its certificate is of no use to whoever asked for a token.
                let _ = grants.delete(&name, &DeleteParams::default()).await;
                return Err(misfit(&name, "no token that can be read"));
            };
            until = until.min(ends);
            Some(token)
        }
    };
    Ok(Kept {
        grant: name,
        namespace: namespace.clone(),
        certificate: issued.certificate,
        key: key.reveal().to_owned(),
        token,
        authority: issued.authority,
        since,
        until,
    })
}

/// The token of a grant, and when it ends; none where it says none, or one that is not for this key.
fn opened(issued: &Issued, key: &OpeningKey, uid: &str) -> Option<(String, Timestamp)> {
    let (sealed, ends) = issued.token.as_ref()?;
    Some((key.open(sealed, &token_purpose(uid))?, time(ends)?))
}

fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// Most often an operator that is older.
fn misfit(grant: &str, lacks: &str) -> Failure {
    let what = format!("AccessGrant {grant} is issued, and says {lacks}");
    let mend = "`covey version` says whether versions fit together";
    Failure::new(Exit::Failed, &what, mend)
}

fn no_random() -> Failure {
    let what = "cannot make a key: the system gives no random numbers";
    Failure::new(Exit::Failed, what, "look at the system's random numbers")
}

/// A kubeconfig is of one tenant cluster, and not of the next one of its name.
fn is_the_same(cluster: &TenantCluster, wanted: &Wanted<'_>) -> Result<(), Failure> {
    if cluster.metadata.uid.as_deref() == Some(wanted.uid) {
        return Ok(());
    }
    let name = wanted.name;
    let what = format!(
        "TenantCluster {name} was deleted and made anew: the kubeconfig is of the one before, {}",
        wanted.uid
    );
    let mend =
        format!("`covey kubeconfig {name}` makes one of the tenant cluster that is there now");
    Err(Failure::new(Exit::Failed, &what, &mend))
}

/// What the management cluster calls whoever asks.
async fn own_name(client: &Client) -> Result<String, Failure> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = SelfSubjectReview::default();
    let told = reviews.create(&PostParams::default(), &review).await;
    let told = told.map_err(|error| Failure::of("ask who you are", &error))?;
    let user = told.status.and_then(|status| status.user_info?.username);
    user.ok_or_else(|| {
        let what = "the management cluster does not say who you are";
        Failure::new(Exit::Failed, what, "name yourself with `--user`")
    })
}

/// Waits until it is issued.
async fn issued(grants: &Api<AccessGrant>, name: &str) -> Result<Box<Issued>, Failure> {
    let end = Instant::now() + PATIENCE;
    let watch = watcher::watch_object(grants.clone(), name).default_backoff();
    pin_mut!(watch);
    let mut waits = "the operator has not looked at it yet".to_owned();
    loop {
        let grant = match timeout_at(end, watch.next()).await {
            Ok(Some(Ok(Some(grant)))) => grant,
            Ok(Some(Ok(None))) => {
                let what = format!("AccessGrant {name} was deleted while it was waited for");
                return Err(Failure::new(Exit::NotFound, &what, "try again"));
            }
            // The watch comes back by itself.
            Ok(Some(Err(error))) => {
                waits = format!("the API: {}", chain(&error));
                continue;
            }
            Ok(None) | Err(_) => {
                // What comes late is nobody's: its key goes with this process.
                let _ = grants.delete(name, &DeleteParams::default()).await;
                let what = format!(
                    "there was no certificate within {} s: {waits}",
                    PATIENCE.as_secs()
                );
                return Err(Failure::new(
                    Exit::TimedOut,
                    &what,
                    "`covey doctor` says what is wrong",
                ));
            }
        };
        match answer(&grant) {
            Answer::Issued(all) => return Ok(all),
            Answer::Waits(what) => waits = what,
            Answer::Refused(what, mend) => {
                let _ = grants.delete(name, &DeleteParams::default()).await;
                return Err(Failure::new(Exit::Refused, &what, mend));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_that_nobody_gives_are_refused_with_both_bounds() {
        assert_eq!(seconds(Duration::from_secs(3600)).unwrap(), 3600);
        for wrong in [300, 86_401, u64::MAX] {
            let failure = seconds(Duration::from_secs(wrong)).unwrap_err();
            assert_eq!(failure.exit, Exit::Refused);
            assert!(failure.what.contains("at least 10m") && failure.what.contains("at most 24h"));
        }
    }

    #[test]
    fn a_token_is_taken_from_the_grant_that_was_made_and_from_no_other() {
        let key = OpeningKey::generate().unwrap();
        let ends = "2027-01-31T13:00:00Z".to_owned();
        let issued = |sealed: Option<String>| Issued {
            certificate: "CERT".to_owned(),
            authority: "CA".to_owned(),
            until: ends.clone(),
            token: sealed.map(|sealed| (sealed, ends.clone())),
        };
        let seal = |uid: &str| {
            pki::sealed::seal(&key.public(), "sesame-canary", &token_purpose(uid)).unwrap()
        };
        let (token, until) = opened(&issued(Some(seal("u1"))), &key, "u1").unwrap();
        assert_eq!(
            (token.as_str(), until),
            ("sesame-canary", time(&ends).unwrap())
        );
        assert_eq!(opened(&issued(Some(seal("u2"))), &key, "u1"), None);
        // An operator that knows no tokens.
        assert_eq!(opened(&issued(None), &key, "u1"), None);
    }

    #[test]
    fn a_tenant_cluster_that_was_made_anew_is_another_one() {
        let cluster = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": { "name": "demo", "uid": "u2" }, "spec": { "version": "1.35.4" },
        });
        let cluster: TenantCluster = serde_json::from_value(cluster).unwrap();
        let rights = GrantWanted {
            profile: "view".to_owned(),
            user: None,
            group: None,
            ttl: Duration::from_secs(600),
            token: false,
        };
        let of = |uid| {
            let wanted = Wanted {
                name: "demo",
                uid,
                rights: &rights,
            };
            is_the_same(&cluster, &wanted)
        };
        assert!(of("u2").is_ok());
        let failure = of("u1").unwrap_err();
        assert!(
            failure.what.contains("made anew") && failure.mend.contains("covey kubeconfig demo")
        );
    }
}
