//! `nginx` with `git http-backend` by `fcgiwrap`: http and https, one directory of repositories.
//!
//! The sockets listen before the programs start, and the programs inherit them: no other process
//! can take the port, and clients need not wait for the start.

use std::{
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::{
        fd::OwnedFd,
        unix::{net::UnixListener, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::certificates;
use crate::tools::need_system_program;

/// The timeout for the response to the first request.
const START: Duration = Duration::from_secs(30);

/// The number of requests served in parallel; each one is a process.
const BACKENDS: &str = "8";

/// A running server.
///
/// | path | response |
/// |---|---|
/// | `git/<repository>` | `git http-backend`, all versions of the protocol |
/// | `v0/<repository>` | the same, but without the header `Git-Protocol` |
/// | `auth/<repository>` | needs [`Nginx::USER`] and [`Nginx::PASSWORD`] |
/// | `bearer/<repository>` | needs the bearer token [`Nginx::TOKEN`] |
/// | `cert/<repository>` | needs the client's certificate (https only) |
/// | `files/<path>` | the file, with range requests: dumb http, bundles |
/// | `auth-files/<path>` | the same, with the password |
/// | `moved/<301, 302, 303, 307 or 308>/<path>` | a redirect to `/<path>` on the same port |
/// | `tls/<path>` | a redirect to `/<path>` over https |
/// | `plain/<path>` | a redirect to `/<path>` over http |
/// | `status/<number>/...` | this status |
pub struct Nginx {
    nginx: Child,
    backend: Child,
    dir: TempDir,
    http: u16,
    https: u16,
}

/// Changes to the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct NginxOptions<'a> {
    /// Directives to add to the block `server`. `$backend` in them is replaced by the directives
    /// that call `git http-backend`; the variable `$repository` must hold the path below the root,
    /// with a leading slash.
    pub directives: &'a str,
    /// Settings for the programs of the repositories, such as `("uploadpack.allowFilter", "true")`.
    pub config: &'a [(&'a str, &'a str)],
    /// The server's certificate signed itself, and [`Nginx::ca_file`] holds it.
    pub self_signed: bool,
}

impl Nginx {
    /// The user name for `auth/`.
    pub const USER: &'static str = "alice";
    /// The password for `auth/`.
    pub const PASSWORD: &'static str = "open sesame";
    /// The token for `bearer/`.
    pub const TOKEN: &'static str = "dG9rZW4";

    /// Serves the repositories and files below `root`. Git is the program in `SAPWOOD_TEST_GIT`, or
    /// the one in `PATH`.
    pub fn start(root: &Path) -> Nginx {
        Nginx::with(root, NginxOptions::default())
    }

    /// Like [`Nginx::start`], with changes.
    pub fn with(root: &Path, options: NginxOptions<'_>) -> Nginx {
        let dir = tempfile::Builder::new().prefix("nginx-").tempdir().expect("a temporary directory");
        let at = dir.path();
        certificates::write(at);
        if options.self_signed {
            certificates::write_self_signed(at);
        }
        let (http, https) = (listen(), listen());
        let port =
            |socket: &TcpListener| socket.local_addr().expect("the socket has been bound to a port").port();
        let ports = (port(&http), port(&https));

        let mut config = "[safe]\n\tdirectory = *\n".to_owned();
        for (key, value) in options.config {
            let (section, name) = key.rsplit_once('.').expect("a section and a name");
            let _ = writeln!(config, "[{section}]\n\t{name} = {value}");
        }
        let password = format!("{}:{{PLAIN}}{}\n", Self::USER, Self::PASSWORD);
        let settings = settings(at, root, ports, options.directives);
        for (name, text) in [("gitconfig", config), ("passwords", password), ("nginx.conf", settings)] {
            fs::write(at.join(name), text).expect("the directory of the server is writable");
        }

        let backend = start_backend(at);
        let mut command = Command::new(need_system_program("nginx"));
        command.arg("-p").arg(at).arg("-c").arg(at.join("nginx.conf")).arg("-e").arg(at.join("error.log"));
        command.env_clear().env("NGINX", "0;1;").stdin(OwnedFd::from(http)).stdout(OwnedFd::from(https));
        let log = fs::File::create(at.join("stderr")).expect("the directory of the server is writable");
        let nginx = command.stderr(log).process_group(0).spawn().expect("nginx starts");
        drop(command);
        let server = Nginx { nginx, backend, dir, http: ports.0, https: ports.1 };
        server.wait_until_ready();
        server
    }

    /// Returns the http URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.http)
    }

    /// Returns the https URL of a path. The certificate is valid for the address in this URL, and
    /// not for `localhost`.
    pub fn tls_url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}/{path}", self.https)
    }

    /// Returns the port for http.
    pub fn port(&self) -> u16 {
        self.http
    }

    /// Returns the port for https.
    pub fn tls_port(&self) -> u16 {
        self.https
    }

    /// Returns the certificate of the authority, for `http.sslCAInfo`.
    pub fn ca_file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Returns the client's certificate and its key, for `http.sslCert` and `http.sslKey`.
    pub fn client_certificate(&self) -> (PathBuf, PathBuf) {
        (self.dir.path().join("client.pem"), self.dir.path().join("client.key"))
    }

    /// Returns all requests so far, one per line:
    ///
    /// `method|address|status|bytes sent|Git-Protocol|Authorization|User-Agent|Cookie|
    /// Content-Encoding|Range|X-Test|Accept|Accept-Language|Accept-Encoding|Content-Type`; an
    /// absent value is `-`.
    pub fn requests(&self) -> Vec<String> {
        // nginx logs a request at its end. One worker serves all requests, so the lines of earlier
        // requests are complete when this one is answered.
        self.get("/ready").expect("the server answers");
        let log = fs::read_to_string(self.dir.path().join("access.log")).unwrap_or_default();
        log.lines().map(str::to_owned).filter(|line| !line.starts_with("GET|/ready|")).collect()
    }

    /// Clears the list of requests.
    pub fn clear_requests(&self) {
        self.get("/ready").expect("the server answers");
        let log = fs::OpenOptions::new().write(true).truncate(true).open(self.dir.path().join("access.log"));
        log.expect("the log is writable");
    }

    /// Returns the messages of nginx and of the programs that it started.
    pub fn messages(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        format!("{}{}{}", read("stderr"), read("error.log"), read("backend.log"))
    }

    fn wait_until_ready(&self) {
        if let Err(error) = self.get("/ready") {
            panic!("nginx does not answer: {error}\n{}", self.messages());
        }
    }

    fn get(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http))?;
        stream.set_read_timeout(Some(START))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        if answer.starts_with("HTTP/1.1 204") {
            Ok(answer)
        } else {
            Err(std::io::Error::other(format!("unexpected answer '{answer}'")))
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        for child in [&mut self.nginx, &mut self.backend] {
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            let _ = child.wait();
        }
    }
}

fn listen() -> TcpListener {
    let socket = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    // nginx requires this of an inherited socket.
    socket.set_nonblocking(true).expect("the socket is open");
    socket
}

fn git() -> PathBuf {
    std::env::var_os("SAPWOOD_TEST_GIT").map_or_else(|| "git".into(), PathBuf::from)
}

/// Starts `fcgiwrap` at the socket `dir/backend`.
fn start_backend(dir: &Path) -> Child {
    let socket = UnixListener::bind(dir.join("backend")).expect("a path that is short enough");
    let log = fs::File::create(dir.join("backend.log")).expect("the directory of the server is writable");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let oracle = git().parent().filter(|dir| dir.is_absolute()).map(Path::to_owned);
    let dirs = oracle.into_iter().chain(std::env::split_paths(&path));
    let mut command = Command::new(need_system_program("fcgiwrap"));
    command.args(["-c", BACKENDS]).stdin(OwnedFd::from(socket)).stdout(Stdio::null()).stderr(log);
    command.env_clear().env("PATH", std::env::join_paths(dirs).expect("taken from a PATH"));
    command.process_group(0).spawn().expect("fcgiwrap starts")
}

/// Returns the configuration of nginx.
fn settings(at: &Path, root: &Path, (http, https): (u16, u16), extra: &str) -> String {
    let exec_path = Command::new(git()).arg("--exec-path").output().expect("Git runs").stdout;
    let exec_path = String::from_utf8(exec_path).expect("a path in UTF-8");
    let (root, dir) = (root.display(), at.display());
    let backend = format!(
        "fastcgi_pass unix:{dir}/backend;
        fastcgi_buffering off;
        fastcgi_read_timeout 600s;
        fastcgi_param SCRIPT_FILENAME {}/git-http-backend;
        fastcgi_param GIT_PROJECT_ROOT {root};
        fastcgi_param GIT_HTTP_EXPORT_ALL 1;
        fastcgi_param GIT_CONFIG_NOSYSTEM 1;
        fastcgi_param GIT_CONFIG_GLOBAL {dir}/gitconfig;
        fastcgi_param HOME {dir};
        fastcgi_param PATH_INFO $repository;
        fastcgi_param QUERY_STRING $query_string;
        fastcgi_param REQUEST_METHOD $request_method;
        fastcgi_param CONTENT_TYPE $content_type;
        fastcgi_param CONTENT_LENGTH $content_length;
        fastcgi_param REMOTE_USER $remote_user;
        fastcgi_param REMOTE_ADDR $remote_addr;
        fastcgi_param SERVER_PROTOCOL $server_protocol;
        fastcgi_param HTTP_CONTENT_ENCODING $http_content_encoding;",
        exec_path.trim_end(),
    );
    // Request headers become parameters by default; this setting hides them from the backend.
    let no_version = "fastcgi_pass_request_headers off;";
    let bearer = format!("Bearer {}", Nginx::TOKEN);
    let extra = extra.replace("$backend", &backend);
    // The user that nginx would choose has no access to the directory of a test.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    format!(
        "daemon off;
{user}
worker_processes 1;
pid {dir}/pid;
worker_rlimit_nofile 1024;
events {{ worker_connections 512; }}
http {{
    log_format requests '$request_method|$request_uri|$status|$body_bytes_sent|$http_git_protocol|$http_authorization|$http_user_agent|$http_cookie|$http_content_encoding|$http_range|$http_x_test|$http_accept|$http_accept_language|$http_accept_encoding|$content_type';
    access_log {dir}/access.log requests;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    client_max_body_size 0;
    server {{
        listen 127.0.0.1:{http};
        listen 127.0.0.1:{https} ssl;
        ssl_certificate {dir}/server.pem;
        ssl_certificate_key {dir}/server.key;
        ssl_client_certificate {dir}/ca.pem;
        ssl_verify_client optional;
        location = /ready {{ return 204; }}
        location ~ ^/git(?<repository>/.*)$ {{ {backend} }}
        location ~ ^/v0(?<repository>/.*)$ {{ {no_version} {backend} }}
        location ~ ^/auth(?<repository>/.*)$ {{
            auth_basic \"the vault\";
            auth_basic_user_file {dir}/passwords;
            {backend}
        }}
        location ~ ^/bearer(?<repository>/.*)$ {{
            if ($http_authorization != \"{bearer}\") {{
                add_header WWW-Authenticate 'Bearer realm=\"the vault\"' always;
                return 401;
            }}
            {backend}
        }}
        location ~ ^/cert(?<repository>/.*)$ {{
            if ($ssl_client_verify != SUCCESS) {{ return 403; }}
            {backend}
        }}
        location /files/ {{ alias {root}/; }}
        location /auth-files/ {{
            auth_basic \"the vault\";
            auth_basic_user_file {dir}/passwords;
            alias {root}/;
        }}
        location ~ ^/moved/301(?<to>/.*)$ {{ return 301 $to$is_args$args; }}
        location ~ ^/moved/302(?<to>/.*)$ {{ return 302 $to$is_args$args; }}
        location ~ ^/moved/303(?<to>/.*)$ {{ return 303 $to$is_args$args; }}
        location ~ ^/moved/307(?<to>/.*)$ {{ return 307 $to$is_args$args; }}
        location ~ ^/moved/308(?<to>/.*)$ {{ return 308 $to$is_args$args; }}
        location ~ ^/tls(?<to>/.*)$ {{ return 302 https://127.0.0.1:{https}$to$is_args$args; }}
        location ~ ^/plain(?<to>/.*)$ {{ return 302 http://127.0.0.1:{http}$to$is_args$args; }}
        location /status/401/ {{ return 401; }}
        location /status/403/ {{ return 403; }}
        location /status/404/ {{ return 404; }}
        location /status/407/ {{ return 407; }}
        location /status/429/ {{ return 429; }}
        location /status/500/ {{ return 500; }}
        location /status/503/ {{ return 503; }}
        {extra}
    }}
}}
"
    )
}
