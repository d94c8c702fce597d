//! Carries out what the plans say, in one project.
//!
//! Invariant: before anything is decided on what was not found, the project is proven to be the one that machines were
//! made in; what is remembered here (looks, lists, IDs) only saves requests, and whoever begins anew comes to the same
//! end.
//! Long because all that is asked of a project goes by what is remembered of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use providers::clock::Clock;
use providers::http_client::BuildError;
use providers::identity::{MACHINE_UID, Owner, of_installation};
use providers::leaks::Suspects;
use providers::looks::Looks;
use providers::subject::{Asked, Subject};
use providers::token::Token;
use providers::{Checked, Description, FaultKind, Inventory, Listed, Presence, Proof, Refused};

use crate::calls::{Calls, Listing};
use crate::describe;
use crate::offerings::{self, Size};
use crate::plan::{self, Creation, Deletion, Seen};
use crate::refusal::{Asked as Call, NO_SUCH, OTHER_PROJECT};
use crate::schema::{CreatePrimaryIp, CreateServer, Named, PrimaryIp, Server, ServerType};
use crate::settings::{Project, Resolved, Wanted};

/// Calls of one creation, or one deletion, before it is left to the next look.
const STEPS: usize = 6;
/// How old a list may be that a machine at rest is described by.
const FRESH: SignedDuration = SignedDuration::from_secs(100);
/// How old sizes and prices may be.
const SIZES: SignedDuration = SignedDuration::from_hours(6);

/// Which of our fields names the network.
const NETWORK: &str = "spec.hetzner.network of the ProviderConfig";
/// Which of our fields names the firewalls.
const FIREWALLS: &str = "spec.hetzner.firewalls of the ProviderConfig";

/// One project.
pub struct Cloud {
    pub(crate) calls: Calls,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) project: Project,
    looks: Mutex<Looks>,
    pub(crate) suspects: Mutex<Suspects>,
    account: Mutex<Option<String>>,
    resolved: Mutex<Option<Resolved>>,
    /// Held while it is read, so that many who ask at once make one list.
    list: tokio::sync::Mutex<Option<List>>,
    sizes: tokio::sync::Mutex<Option<(Timestamp, Vec<ServerType>)>>,
}

/// All servers of the installation, by the UID of their Machine.
struct List {
    at: Timestamp,
    servers: BTreeMap<String, Server>,
}

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cloud {
    /// At `endpoint`, with `token`. Nothing is asked yet.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(
        endpoint: &str,
        token: Token,
        project: Project,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        Ok(Self {
            calls: Calls::new(endpoint, token, Arc::clone(&clock))?,
            clock,
            project,
            looks: Mutex::default(),
            suspects: Mutex::default(),
            account: Mutex::default(),
            resolved: Mutex::default(),
            list: tokio::sync::Mutex::default(),
            sizes: tokio::sync::Mutex::default(),
        })
    }

    /// Which project the token is of: the ID of the first SSH key in it, which no other project has. A token itself
    /// does not say it, and stays in its project for its life.
    ///
    /// # Errors
    /// Where nobody knows, or it is another project than machines were made in before.
    pub async fn account(&self) -> Result<String, Refused> {
        if let Some(known) = held(&self.account).clone() {
            return Ok(known);
        }
        let name = self.project.ssh_keys.first();
        let name = name.map(String::as_str).unwrap_or_default();
        let asked = Call::new("use", format!("SSH key {name}"));
        let found = match name {
            "" => None,
            name => self.calls.ssh_key(name).await?,
        };
        let account = found.map(|key| format!("ssh-key-{}", key.id));
        let expected = self.project.account.as_ref();
        match (account, expected) {
            (Some(account), None) => Ok(self.knows(account)),
            (Some(account), Some(expected)) if account == *expected => Ok(self.knows(account)),
            (None, None) => Err(Refused {
                mend: Some(
                    "put it into the project, or change spec.hetzner.sshKeys of the ProviderConfig; the first one is \
                     how the project is known again"
                        .to_owned(),
                ),
                ..asked.refused(FaultKind::Auth, NO_SUCH, "there is no such SSH key")
            }),
            (_, Some(expected)) => Err(Refused {
                mend: Some(format!(
                    "machines were made where it is {expected}: put a token of that project into the Secret that \
                     spec.hetzner.tokenSecretName of the ProviderConfig names; nothing is deleted meanwhile"
                )),
                ..asked.refused(FaultKind::Auth, OTHER_PROJECT, "it is another one, or none")
            }),
        }
    }

    fn knows(&self, account: String) -> String {
        *held(&self.account) = Some(account.clone());
        account
    }

    /// Proves that machines can be made as they are asked for, as far as that can be asked without making one: whether
    /// the token may write, and what the project may have, Hetzner says only when something is made.
    ///
    /// # Errors
    /// Why none could be made.
    pub async fn check(&self, types: &[String], images: &[String]) -> Result<Checked, Refused> {
        // What was known of a token may have changed since.
        *held(&self.account) = None;
        *held(&self.resolved) = None;
        let account = self.account().await?;
        self.resolve().await?;
        for image in images {
            let found = self.calls.image(image).await?;
            let usable = found.filter(|image| image.status.as_deref() != Some("unavailable"));
            needs(usable.as_ref(), "image", image, "image of the node pool")?;
        }
        self.sizes(types).await?;
        Ok(Checked {
            account: Some(account),
        })
    }

    /// The sizes of these names, with their prices, at most six hours old.
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub async fn sizes(&self, types: &[String]) -> Result<Vec<Size>, Refused> {
        let now = self.clock.now();
        let mut known = self.sizes.lock().await;
        let old = |(at, _): &(Timestamp, _)| now.duration_since(*at) >= SIZES;
        if known.as_ref().is_none_or(old) {
            *known = Some((now, self.calls.server_types().await?.whole()?));
        }
        let all = known.as_ref().map_or(&[][..], |(_, all)| all);
        offerings::known_location(all, &self.project.location)?;
        offerings::sizes(all, types, &self.project.location, now)
    }

    /// The same as far as it is known already, however old; none where nothing is, or somebody asks at the moment.
    ///
    /// # Errors
    /// As [`Self::sizes`].
    pub fn known_sizes(&self, types: &[String]) -> Result<Option<Vec<Size>>, Refused> {
        let known = self.sizes.try_lock().ok();
        let known = known.as_ref().and_then(|known| known.as_ref());
        let of = |(_, all): &(Timestamp, Vec<ServerType>)| {
            offerings::sizes(all, types, &self.project.location, self.clock.now())
        };
        known.map(of).transpose()
    }

    /// Makes the machine, unless it is there. It counts as made once it was described.
    ///
    /// # Errors
    /// Where it was not made, or nobody knows: [`FaultKind::leaves_outcome_unknown`].
    pub async fn create(&self, wanted: &Wanted) -> Result<Presence, Refused> {
        // Also because nothing must be made in another project.
        let resolved = self.resolve().await?;
        let owner = &wanted.owner;
        let asked = Call::new("create", format!("server {}", owner.name()));
        let mut seen = Seen {
            servers: self.servers_of(owner).await?,
            addresses: self.addresses_of(owner).await?,
        };
        for _ in 0..STEPS {
            match plan::creation(wanted, &self.project, &resolved, &seen) {
                Creation::There(server) => {
                    let now = self.clock.now();
                    held(&self.looks).sees(&owner.uid, now);
                    let description = describe::description(&server, None, now);
                    return Ok(Presence::Present(Box::new(description)));
                }
                Creation::Address(_, request) => {
                    seen.addresses
                        .push(self.make_address(owner, &request).await?);
                }
                Creation::Server(request) => return self.make_server(owner, &request).await,
                Creation::Impossible(why) => {
                    let refused = asked.refused(FaultKind::Terminal, "impossible", "");
                    let mend = Some(why);
                    return Err(Refused { mend, ..refused });
                }
                Creation::Busy(name) => {
                    let why = format!("primary IP {name} is assigned to another server");
                    return Err(asked.refused(FaultKind::Conflict, "primary_ip_assigned", why));
                }
            }
        }
        let why = "what was made is not seen yet";
        Err(asked.refused(FaultKind::Conflict, "not_seen_yet", why))
    }

    async fn make_server(
        &self,
        owner: &Owner,
        request: &CreateServer,
    ) -> Result<Presence, Refused> {
        match self.calls.create_server(request).await {
            Ok(_) => Ok(Presence::Unknown {
                why: "it was made a moment ago, and is looked for from now on",
            }),
            // Of an earlier call of ours whose answer was lost, or of somebody else.
            Err(taken) if taken.kind == FaultKind::Taken => {
                match self.calls.server_named(&request.name).await? {
                    Some(server) if owner.has(&server.labels) => Ok(Presence::Unknown {
                        why: "it was made before, and is looked for from now on",
                    }),
                    Some(_) => Err(taken),
                    None => Err(not_yet(taken)),
                }
            }
            Err(refused) => {
                if refused.kind == FaultKind::Terminal {
                    // What a name stands for may have changed.
                    *held(&self.resolved) = None;
                }
                Err(refused)
            }
        }
    }

    async fn make_address(
        &self,
        owner: &Owner,
        request: &CreatePrimaryIp,
    ) -> Result<PrimaryIp, Refused> {
        match self.calls.create_primary_ip(request).await {
            Err(taken) if taken.kind == FaultKind::Taken => {
                match self.calls.primary_ip_named(&request.name).await? {
                    Some(address) if owner.has(&address.labels) => Ok(address),
                    Some(_) => Err(taken),
                    None => Err(not_yet(taken)),
                }
            }
            made => made,
        }
    }

    /// What is there of a machine.
    ///
    /// # Errors
    /// Then nobody knows.
    pub async fn describe(&self, subject: &Subject) -> Result<Presence, Refused> {
        let owner = &subject.owner;
        if subject.asked == Asked::Never {
            return Ok(Presence::Absent(Proof::NotSeenYet));
        }
        if subject.asked == Asked::Seen
            && !subject.is_going
            && let Some(server) = self.listed(owner).await?
            && server.status == "running"
        {
            let description = describe::description(&server, None, self.clock.now());
            return Ok(Presence::Present(Box::new(description)));
        }
        self.account().await?;
        let servers = self.servers_of(owner).await?;
        if let Some(server) = plan::own(owner, &servers) {
            return self.present(owner, server).await;
        }
        if let Some(server) = self.stray(owner, subject.instance).await? {
            return self.present(owner, &server).await;
        }
        if subject.is_going && !self.addresses_of(owner).await?.is_empty() {
            // They cost, and are deleted with it.
            return Ok(Presence::Present(Box::new(Description {
                foreign: false,
                ..Description::default()
            })));
        }
        Ok(self.missed(subject))
    }

    /// Its server by ID and name, where somebody took the labels off.
    async fn stray(&self, owner: &Owner, instance: Option<u64>) -> Result<Option<Server>, Refused> {
        if instance.is_none() {
            return Ok(None);
        }
        let named = self.calls.server_named(&owner.name()).await?;
        Ok(plan::stray(owner, instance, named.as_ref()).cloned())
    }

    async fn present(&self, owner: &Owner, server: &Server) -> Result<Presence, Refused> {
        let now = self.clock.now();
        held(&self.looks).sees(&owner.uid, now);
        let actions = match describe::is_unsettled(server) {
            true => self.calls.last_actions(server.id).await?,
            false => Vec::new(),
        };
        let failed = describe::failure(&actions);
        let description = describe::description(server, failed, now);
        Ok(Presence::Present(Box::new(description)))
    }

    /// It was looked for in its project, and not found.
    fn missed(&self, subject: &Subject) -> Presence {
        let mut looks = held(&self.looks);
        if matches!(subject.asked, Asked::Pending { .. }) && !subject.is_going {
            return Presence::Absent(Proof::NotSeenYet);
        }
        match looks.misses(subject, self.clock.now()) {
            Some(proof) => {
                looks.forgets(&subject.owner.uid);
                Presence::Absent(proof)
            }
            None => Presence::Unknown {
                why: "Hetzner does not list its server, which is looked for again before that is believed",
            },
        }
    }

    /// A server by the last list of all, which is read anew where it is old.
    async fn listed(&self, owner: &Owner) -> Result<Option<Server>, Refused> {
        let mut list = self.list.lock().await;
        let now = self.clock.now();
        let fresh = |list: &List| now.duration_since(list.at) < FRESH;
        if !list.as_ref().is_some_and(fresh) {
            self.account().await?;
            let listing = self.of_installation().await?;
            let uid = |server: &Server| server.labels.get(MACHINE_UID).cloned();
            // What a list misses is looked for by itself.
            let servers = listing.items.into_iter();
            let servers = servers.filter_map(|server| Some((uid(&server)?, server)));
            *list = Some(List {
                at: now,
                servers: servers.collect(),
            });
        }
        let found = list.as_ref().and_then(|list| list.servers.get(&owner.uid));
        Ok(found.filter(|server| owner.has(&server.labels)).cloned())
    }

    async fn of_installation(&self) -> Result<Listing<Server>, Refused> {
        let selector = of_installation(&self.project.installation);
        self.calls.servers(&selector).await
    }

    /// Asks for everything of a machine to go, and does not wait. `instance`: the server that it was known to have.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn delete(&self, owner: &Owner, instance: Option<u64>) -> Result<(), Refused> {
        self.account().await?;
        self.forget_listed(owner).await;
        if let Some(server) = self.stray(owner, instance).await? {
            match server.status.as_str() {
                "deleting" => return Ok(()),
                _ => return self.calls.delete_server(server.id).await,
            }
        }
        let mut seen = Seen {
            servers: self.servers_of(owner).await?,
            addresses: self.addresses_of(owner).await?,
        };
        for _ in 0..STEPS {
            match plan::deletion(owner, &seen) {
                Deletion::Server(id) => {
                    self.calls.delete_server(id).await?;
                    for server in seen.servers.iter_mut().filter(|s| s.id == id) {
                        server.status = "deleting".to_owned();
                    }
                }
                Deletion::Address(id) => {
                    self.calls.delete_primary_ip(id).await?;
                    seen.addresses.retain(|address| address.id != id);
                }
                Deletion::Wait | Deletion::Nothing => return Ok(()),
                Deletion::Protected(object) => {
                    let asked = Call::new("delete", object);
                    let refused = asked.refused(FaultKind::Terminal, "protected", "");
                    let mend = "somebody protected it against deletion: take that off in the console, since Covey \
                                does not";
                    return Err(Refused {
                        mend: Some(mend.to_owned()),
                        ..refused
                    });
                }
            }
        }
        Ok(())
    }

    /// Starts the machine anew on the disk that it has, and does not wait.
    ///
    /// # Errors
    /// Where that was not taken, or nothing is there.
    pub async fn restart(&self, owner: &Owner) -> Result<(), Refused> {
        self.account().await?;
        self.forget_listed(owner).await;
        let servers = self.servers_of(owner).await?;
        let Some(server) = plan::own(owner, &servers) else {
            let asked = Call::new("restart", format!("server {}", owner.name()));
            return Err(asked.refused(FaultKind::NotFound, "not_found", "it is not there"));
        };
        let command = match server.status.as_str() {
            "off" => "poweron",
            _ => "reset",
        };
        self.calls.start_server(server.id, command).await
    }

    /// Every machine that a selector chooses.
    ///
    /// # Errors
    /// Where nothing came.
    pub async fn list(&self, selector: &str) -> Result<Inventory, Refused> {
        self.account().await?;
        let now = self.clock.now();
        let listing = self.calls.servers(selector).await?;
        let servers = listing.items.iter();
        let mut machines: Vec<Listed> = servers.filter_map(|s| describe::listed(s, now)).collect();
        machines.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Inventory {
            machines,
            complete: listing.missing.is_none(),
        })
    }

    async fn forget_listed(&self, owner: &Owner) {
        if let Some(list) = self.list.lock().await.as_mut() {
            list.servers.remove(&owner.uid);
        }
    }

    /// What is the Machine's own, of a list that misses nothing.
    pub(crate) async fn servers_of(&self, owner: &Owner) -> Result<Vec<Server>, Refused> {
        let mut servers = self.calls.servers(&owner.selector()).await?.whole()?;
        servers.retain(|server| owner.has(&server.labels));
        Ok(servers)
    }

    pub(crate) async fn addresses_of(&self, owner: &Owner) -> Result<Vec<PrimaryIp>, Refused> {
        let mut addresses = self.calls.primary_ips(&owner.selector()).await?.whole()?;
        addresses.retain(|address| owner.has(&address.labels));
        Ok(addresses)
    }

    /// What names stand for.
    async fn resolve(&self) -> Result<Resolved, Refused> {
        let account = self.account().await?;
        if let Some(known) = held(&self.resolved).clone() {
            return Ok(known);
        }
        let network = match &self.project.network {
            None => None,
            Some(name) => {
                let found = self.calls.network(name).await?;
                Some(needs(found.as_ref(), "network", name, NETWORK)?)
            }
        };
        let mut firewalls = Vec::new();
        for name in &self.project.firewalls {
            let found = self.calls.firewall(name).await?;
            firewalls.push(needs(found.as_ref(), "firewall", name, FIREWALLS)?);
        }
        let resolved = Resolved {
            account,
            network,
            firewalls,
        };
        *held(&self.resolved) = Some(resolved.clone());
        Ok(resolved)
    }
}

/// The name is taken, and by what is not seen yet: an earlier call of ours may be why.
fn not_yet(taken: Refused) -> Refused {
    Refused {
        kind: FaultKind::Conflict,
        mend: None,
        ..taken
    }
}

/// The ID of something that the settings name.
fn needs(found: Option<&Named>, kind: &str, name: &str, field: &str) -> Result<u64, Refused> {
    let asked = Call::new("use", format!("{kind} {name}"));
    found.map(|found| found.id).ok_or_else(|| Refused {
        mend: Some(format!("make it in the project, or change {field}")),
        ..asked.refused(
            FaultKind::Terminal,
            NO_SUCH,
            format!("there is no such {kind}"),
        )
    })
}
