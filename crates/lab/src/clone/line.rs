//! The ways to a server, and the servers.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use testkit::{
    Sandbox,
    servers::{Line, Nginx, Proxy, Sshd},
};

use crate::Error;

/// A way to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Over {
    /// `file://`: a process on this machine.
    File,
    /// https on the loopback.
    Https,
    /// https at 1 Gbit/s.
    Gbit,
    /// https at 100 Mbit/s, with a round trip of 20 ms.
    Far,
    /// ssh on the loopback.
    Ssh,
}

impl Over {
    pub(crate) const ALL: [Over; 5] = [Over::File, Over::Https, Over::Gbit, Over::Far, Over::Ssh];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Over::File => "file",
            Over::Https => "https",
            Over::Gbit => "1gbit",
            Over::Far => "100mbit",
            Over::Ssh => "ssh",
        }
    }

    /// Returns the line before the server, if it is not perfect.
    fn line(self) -> Option<Line> {
        match self {
            Over::File | Over::Https | Over::Ssh => None,
            Over::Gbit => Some(Line { rate: Some(125_000_000), latency: Duration::ZERO }),
            Over::Far => Some(Line { rate: Some(12_500_000), latency: Duration::from_millis(10) }),
        }
    }

    /// Returns the seconds that so many bytes take on the line; zero on a perfect one.
    pub(crate) fn seconds(self, bytes: u64) -> f64 {
        let rate = self.line().and_then(|line| line.rate);
        rate.map_or(0.0, |rate| bytes as f64 / rate as f64)
    }
}

/// A running server for the repositories of a directory.
pub(crate) struct Server {
    root: PathBuf,
    kind: Kind,
}

enum Kind {
    Processes,
    Https {
        nginx: Nginx,
        proxy: Option<Proxy>,
    },
    /// The sandbox holds the keys.
    Ssh {
        sshd: Sshd,
        _sandbox: Sandbox,
    },
}

impl Server {
    /// Serves the repositories below `root`.
    pub(crate) fn start(over: Over, root: &Path) -> Result<Server, Error> {
        let kind = match over {
            Over::File => Kind::Processes,
            Over::Https | Over::Gbit | Over::Far => {
                let nginx = Nginx::start(root);
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, nginx.tls_port()));
                let proxy = over.line().map(|line| Proxy::on(line, address));
                Kind::Https { nginx, proxy }
            }
            Over::Ssh => {
                let sandbox = Sandbox::new();
                let sshd = Sshd::start(&sandbox).ok_or_else(|| Error::Setup("sshd is missing".into()))?;
                Kind::Ssh { sshd, _sandbox: sandbox }
            }
        };
        Ok(Server { root: root.to_owned(), kind })
    }

    /// Returns the address of a repository.
    pub(crate) fn url(&self, repo: &str) -> String {
        match &self.kind {
            Kind::Processes => format!("file://{}", self.root.join(repo).display()),
            Kind::Https { nginx, proxy } => {
                let url = nginx.tls_url(&format!("git/{repo}"));
                proxy.as_ref().map_or_else(|| url.clone(), |proxy| proxy.before(&url))
            }
            Kind::Ssh { sshd, .. } => sshd.url(&self.root.join(repo)),
        }
    }

    /// Returns the settings that a client needs.
    pub(crate) fn settings(&self) -> Vec<String> {
        match &self.kind {
            Kind::Processes => vec!["protocol.file.allow=always".into()],
            Kind::Https { nginx, .. } => vec![format!("http.sslCAInfo={}", nginx.ca_file().display())],
            Kind::Ssh { sshd, .. } => vec![format!("core.sshCommand={}", sshd.ssh())],
        }
    }

    /// Returns the number of bytes that clients got so far, if the server counts them.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match &self.kind {
            Kind::Https { proxy: Some(proxy), .. } => Some(proxy.received()),
            Kind::Https { nginx, proxy: None } => {
                let requests = nginx.requests();
                let sent = |line: &String| line.split('|').nth(3)?.parse::<u64>().ok();
                Some(requests.iter().filter_map(sent).sum())
            }
            Kind::Processes | Kind::Ssh { .. } => None,
        }
    }
}
