//! Proves that machines can be made as they are asked for, as far as that can be asked without making one.
//!
//! Invariant: nothing is made; EC2 itself says whether it would make one (`DryRun`), which holds for rights and for what is
//! named, and not for room and quota.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use providers::identity::Owner;
use providers::offering::Size;
use providers::refused::Asked;
use providers::{Checked, FaultKind, Refused};

use crate::cloud::{Cloud, held};
use crate::offerings::{self, Offered, fits};
use crate::parameters::{Form, run};
use crate::plan;
use crate::refusal::{NO_SUCH, UNAUTHORIZED, asked, lacks, right};
use crate::schema::Image;
use crate::settings::Wanted;

/// How old what there is to be had may be.
const SIZES: SignedDuration = SignedDuration::from_hours(6);
/// What is asked of each machine, and by no other call of a check.
const LOOKS: [&str; 3] = [
    "DescribeInstances",
    "DescribeNetworkInterfaces",
    "DescribeVolumes",
];
/// Addresses that a subnet has left at least, so that machines that are replaced have room.
const FREE: u32 = 8;

impl Cloud {
    /// Proves that machines can be made.
    ///
    /// # Errors
    /// Why none could be made.
    pub async fn check(
        &self,
        types: &[String],
        images: &[String],
        is_spot: bool,
    ) -> Result<Checked, Refused> {
        // What was known of credentials may have changed since.
        *held(&self.account) = None;
        let account = self.account().await?;
        self.check_subnet().await?;
        let sizes = self.sizes(types, is_spot).await?;
        let mut architecture = None;
        for id in images {
            let image = self.check_image(id).await?;
            architecture.get_or_insert_with(|| image.architecture.clone());
            if let Some(other) = sizes.iter().find(|size| !fits(&image.architecture, size)) {
                let why = format!(
                    "it is for {}, and {} is not",
                    image.architecture, other.name
                );
                return Err(no_image(&asked("use", format!("image {id}")), &why));
            }
        }
        let mut missing = Missing::default();
        for action in LOOKS {
            missing.hears(action, self.calls.would_look(action).await)?;
        }
        if let (Some(image), Some(architecture)) = (images.first(), &architecture) {
            let named = types.first().cloned();
            let size = match &named {
                Some(size) => Some(size.clone()),
                None => self.any_type(architecture).await,
            };
            if let Some(size) = size {
                let would = self
                    .calls
                    .would_run(self.sample(size, image, is_spot))
                    .await;
                let would = match would {
                    // The type is ours, and may be one that does not go with the image; of rights it says as much.
                    Err(refused) if named.is_none() && says_nothing_of_rights(&refused) => Ok(()),
                    would => would,
                };
                missing.hears("RunInstances", would)?;
            }
        }
        missing.told()?;
        Ok(Checked {
            account: Some(account),
        })
    }

    /// What one machine would be asked for with.
    fn sample(&self, size: String, image: &str, is_spot: bool) -> Form {
        let wanted = Wanted {
            owner: Owner {
                installation: self.place.installation.clone(),
                machine: "check".to_owned(),
                ..Owner::default()
            },
            since: self.calls.now(),
            size,
            image: image.to_owned(),
            disk: 30,
            is_spot,
            user_data: String::new(),
        };
        run(&wanted, &self.place)
    }

    /// A type that is to be had for such an image, where no pool has named one.
    async fn any_type(&self, architecture: &str) -> Option<String> {
        let known = self.offered.lock().await;
        let (_, offered) = known.as_ref()?;
        offerings::any(offered, architecture)
    }

    async fn check_subnet(&self) -> Result<(), Refused> {
        let place = &self.place;
        let asked = asked("use", format!("subnet {}", place.subnet));
        let terminal = |why: &str| Refused {
            mend: Some(
                "change spec.aws.subnetID or spec.aws.zone of the ProviderConfig".to_owned(),
            ),
            ..asked.refused(FaultKind::Terminal, NO_SUCH, why)
        };
        let found = self.calls.subnet(&place.subnet).await?;
        let found = found.ok_or_else(|| terminal("there is no such subnet"))?;
        if found.zone != place.zone {
            return Err(terminal(&format!("it is in zone {}", found.zone)));
        }
        match found.free {
            Some(free) if free < FREE => Err(Refused {
                mend: Some(
                    "name a larger subnet as spec.aws.subnetID of the ProviderConfig, or delete what has its addresses"
                        .to_owned(),
                ),
                ..asked.refused(
                    FaultKind::Quota { again: None },
                    "InsufficientFreeAddressesInSubnet",
                    format!("it has {free} addresses left"),
                )
            }),
            _ => Ok(()),
        }
    }

    async fn check_image(&self, id: &str) -> Result<Image, Refused> {
        let asked = asked("use", format!("image {id}"));
        let found = match plan::is_image(id) {
            true => self.calls.image(id).await?,
            false => None,
        };
        let found = found.ok_or_else(|| no_image(&asked, "there is no such image"))?;
        if found.state != "available" {
            return Err(no_image(&asked, &format!("it is {}", found.state)));
        }
        if found.root_device != self.place.root_device {
            let why = format!("it calls its first disk {}", found.root_device);
            return Err(no_image(&asked, &why));
        }
        Ok(found)
    }

    /// The sizes of these names, at most six hours old. Their price is that of instances that may be taken back, where
    /// those are asked for.
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub async fn sizes(&self, types: &[String], is_spot: bool) -> Result<Vec<Size>, Refused> {
        let (now, zone) = (self.clock.now(), &self.place.zone);
        let mut known = self.offered.lock().await;
        let old = |(at, _): &(Timestamp, Offered)| now.duration_since(*at) >= SIZES;
        if known.as_ref().is_none_or(old) {
            let offered = Offered {
                types: self.calls.types().await?,
                here: self.calls.types_in(zone).await?,
                prices: self.calls.spot_prices(zone).await?,
            };
            *known = Some((now, offered));
        }
        let found = known.as_ref();
        let found = found.map(|(_, offered)| offerings::sizes(offered, types, zone, is_spot));
        found.unwrap_or_else(|| Ok(Vec::new()))
    }

    /// The same as far as it is known already, however old; none where nothing is, or somebody asks at the moment.
    ///
    /// # Errors
    /// As [`Self::sizes`].
    pub fn known_sizes(
        &self,
        types: &[String],
        is_spot: bool,
    ) -> Result<Option<Vec<Size>>, Refused> {
        let known = self.offered.try_lock().ok();
        let known = known.as_ref().and_then(|known| known.as_ref());
        let zone = &self.place.zone;
        let of =
            |(_, offered): &(Timestamp, Offered)| offerings::sizes(offered, types, zone, is_spot);
        known.map(of).transpose()
    }
}

/// Rights that are missing, each once, and what was said first.
#[derive(Debug, Default)]
struct Missing {
    rights: BTreeSet<String>,
    first: Option<Refused>,
}

impl Missing {
    /// Takes in what EC2 says of a call that was not to be carried out.
    ///
    /// # Errors
    /// What has nothing to do with rights.
    fn hears(&mut self, action: &str, would: Result<(), Refused>) -> Result<(), Refused> {
        match would {
            Err(refused) if refused.code == UNAUTHORIZED => {
                let named = right(&refused.message);
                self.rights
                    .insert(named.unwrap_or_else(|| format!("ec2:{action}")));
                self.first.get_or_insert(refused);
                Ok(())
            }
            would => would,
        }
    }

    /// All of them at once, so that nobody adds one after the other.
    ///
    /// # Errors
    /// Where there are any.
    fn told(self) -> Result<(), Refused> {
        let Some(first) = self.first else {
            return Ok(());
        };
        let rights: Vec<_> = self.rights.into_iter().collect();
        Err(Refused {
            mend: Some(lacks(&rights.join(", "))),
            ..first
        })
    }
}

/// Whether a refusal leaves open who may do what: what a machine is made of is asked after that.
fn says_nothing_of_rights(refused: &Refused) -> bool {
    match refused.kind {
        FaultKind::Auth | FaultKind::Unavailable | FaultKind::Throttled { .. } => false,
        FaultKind::Capacity { .. }
        | FaultKind::Quota { .. }
        | FaultKind::NotFound
        | FaultKind::Conflict
        | FaultKind::Taken
        | FaultKind::Gone
        | FaultKind::Terminal => true,
    }
}

fn no_image(asked: &Asked, why: &str) -> Refused {
    Refused {
        mend: Some(
            "name an image by its ID that is for the type, and what it calls its first disk: change the image of the \
             node pool, or spec.aws.images and spec.aws.rootDevice of the ProviderConfig"
                .to_owned(),
        ),
        ..asked.refused(FaultKind::Terminal, NO_SUCH, why)
    }
}
