#!/bin/sh
# Installs lockd from a release folder, a file, or a checkout: install.sh --help
#
#   curl -fsSL URL/install.sh | LOCKD_DOWNLOAD_URL=URL sh
#
# POSIX sh. What it brings is checked against its SHA-256 sum and run once before it takes its place.
# All of it stands in one pair of braces, so a shell that was given a part of this file only finds a
# syntax error, before it has done anything.
{
set -u

usage() {
  cat <<'END'
usage: install.sh [options]

Installs lockd: into /usr/local/bin as root, else into ~/.local/bin.

  --from FILE|DIR|URL  a release folder, or one artifact with SHA256SUMS beside it
                       (default: LOCKD_DOWNLOAD_URL, else the folder of install.sh)
  --from-source        build it: in a checkout, with Node.js 20 or newer and npm
  --version X.Y.Z      this version and no other
  --sha256 SUM         the sum that the artifact must have, whatever SHA256SUMS says
  --prefix DIR         install into DIR/bin
  --bin-dir DIR        install into DIR
  --timeout SECONDS    give up when a download stands still for so long (default 30)
  --dry-run            say what would be done, and do nothing
  --uninstall          remove lockd from there; configuration and data stay
  --help               this text

Exit codes: 0 done; 64 wrong option; 65 wrong checksum, or a file that does not run; 66 not found;
69 download failed, or a tool is missing; 73 cannot write; 78 lockd does not run on this platform;
1 anything else; 129, 130, 143 ended by a signal.
END
}

main() {
  usage_error=64 bad_data=65 not_found=66 unavailable=69 cannot_write=73 wrong_platform=78
  # `npm run release -- --url URL` fills this in
  release_url=
  action=install from='' prefix='' bin_dir='' version='' sha256='' timeout_seconds=30 dry_run=''
  work='' child='' created=''
  # either of them would change what a bun executable does
  unset BUN_OPTIONS BUN_BE_BUN CDPATH
  # words of tools are read below
  LC_ALL=C
  export LC_ALL
  umask 022

  parse_options "$@"
  choose_bin_dir
  trap clean_up EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  case $action in
    help) usage ;;
    uninstall) uninstall ;;
    source) detect_platform; install_from_source ;;
    install) detect_platform; choose_source; install_from_release ;;
  esac
}

# --- options ---------------------------------------------------------------------------------------

parse_options() {
  while [ $# -gt 0 ]; do
    option=$1
    shift
    case $option in
      --help | -h) action=help; return ;;
      --from-source) action=source; continue ;;
      --uninstall) action=uninstall; continue ;;
      --dry-run) dry_run=yes; continue ;;
      --from=* | --version=* | --sha256=* | --prefix=* | --bin-dir=* | --timeout=*)
        value=${option#*=}
        option=${option%%=*}
        ;;
      --from | --version | --sha256 | --prefix | --bin-dir | --timeout)
        [ $# -gt 0 ] || fail "$usage_error" "read options: $option needs a value" "install.sh --help"
        value=$1
        shift
        ;;
      *) fail "$usage_error" "read options: unknown option $option" "install.sh --help" ;;
    esac
    [ -n "$value" ] || fail "$usage_error" "read options: $option needs a value" "install.sh --help"
    case $option in
      --from) from=$value ;;
      --version) version=${value#v} ;;
      --sha256) sha256=$value ;;
      --prefix) prefix=$value ;;
      --bin-dir) bin_dir=$value ;;
      --timeout) timeout_seconds=$value ;;
    esac
  done
  case $timeout_seconds in
    *[!0-9]* | 0*) fail "$usage_error" "read options: --timeout $timeout_seconds is not a number of seconds" ;;
  esac
  if [ -n "$sha256" ]; then
    sha256=$(printf %s "$sha256" | tr ABCDEF abcdef)
    is_sum "$sha256" || fail "$usage_error" "read options: --sha256 takes 64 hexadecimal digits"
  fi
  if [ "$action" = source ] && [ -n "$from$version$sha256" ]; then
    fail "$usage_error" "read options: --from-source takes no --from, --version or --sha256: it builds what is there"
  fi
}

choose_bin_dir() {
  if [ -n "$bin_dir" ]; then
    [ -z "$prefix" ] || fail "$usage_error" "read options: --prefix and --bin-dir exclude each other"
  elif [ -n "$prefix" ]; then
    bin_dir=${prefix%/}/bin
  elif [ "$(id -u)" = 0 ]; then
    bin_dir=/usr/local/bin
  elif [ -n "${HOME:-}" ]; then
    bin_dir=$HOME/.local/bin
  else
    fail "$usage_error" "choose a directory: HOME is not set" "say where with --bin-dir DIR"
  fi
  absolute "$bin_dir"
  bin_dir=$result
  target=$bin_dir/lockd
}

# Where the release is: sets `place` (a folder or its URL), and `artifact` when one was named.
choose_source() {
  artifact=
  own_folder=
  case $0 in
    install.sh) own_folder=. ;;
    */install.sh) own_folder=${0%/*} ;;
  esac
  place=${from:-${LOCKD_DOWNLOAD_URL:-}}
  if [ -z "$place" ] && [ -n "$own_folder" ] && [ -f "$own_folder/SHA256SUMS" ]; then place=$own_folder; fi
  place=${place:-$release_url}
  if [ -z "$place" ]; then
    fail "$usage_error" "find a release: no address is known" \
      "set LOCKD_DOWNLOAD_URL, or say --from FILE|DIR|URL, or --from-source in a checkout"
  fi
  case $place in
    http://*/ | https://*/) place=${place%/} ;;
    http://*.gz | https://*.gz) artifact=${place##*/} place=${place%/*} ;;
    http://* | https://*) ;;
    file:///*) place=${place#file://} ;;
    *://*) fail "$usage_error" "find a release: $place is neither http nor https nor a path" ;;
  esac
  if ! is_url "$place"; then
    absolute "$place"
    place=$result
    if [ -f "$place" ]; then
      artifact=${place##*/} place=${place%/*}
    elif [ ! -d "$place" ]; then
      fail "$not_found" "read $place: there is no such file or directory"
    fi
  fi
}

# --- the machine -----------------------------------------------------------------------------------

# Sets `platform`, such as linux-x64 or linux-arm64-musl; ends where lockd surely does not run.
detect_platform() {
  system=$(uname -s | tr '[:upper:]' '[:lower:]')
  machine=$(uname -m)
  case $machine in
    x86_64 | amd64) machine=x64 ;;
    aarch64 | arm64) machine=arm64 ;;
  esac
  platform=$system-$machine
  [ "$system" = linux ] || return 0

  if [ "$(getconf LONG_BIT 2>/dev/null)" = 32 ]; then
    fail "$wrong_platform" "choose an artifact: this is a 32-bit system on $(uname -m)" "lockd needs a 64-bit one"
  fi
  if [ "$machine" = x64 ] && grep -q '^flags' /proc/cpuinfo 2>/dev/null && ! grep -q '^flags.* sse4_2' /proc/cpuinfo; then
    fail "$wrong_platform" "choose an artifact: this CPU has no SSE4.2" "lockd needs a processor of 2009 or later"
  fi
  # "glibc 2.36", or the first line of ldd: "musl libc (x86_64)", "ldd (GNU libc) 2.17"
  libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || libc=
  [ -n "$libc" ] || libc=$(ldd --version 2>&1 | head -n 1)
  case $libc in
    *musl*) platform=$platform-musl ;;
    glibc\ * | *GLIBC* | *"GNU libc"*) refuse_old_glibc "${libc##* }" ;;
    *) ! ls /lib/ld-musl-* >/dev/null 2>&1 || platform=$platform-musl ;;
  esac
}

refuse_old_glibc() {
  glibc_major=${1%%.*}
  glibc_minor=${1#*.}
  glibc_minor=${glibc_minor%%[!0-9]*}
  case $glibc_major-$glibc_minor in
    *[!0-9-]* | -* | *-) return 0 ;;
  esac
  if [ "$glibc_major" -lt 2 ] || { [ "$glibc_major" -eq 2 ] && [ "$glibc_minor" -lt 17 ]; }; then
    fail "$wrong_platform" "choose an artifact: this system has glibc $1" "lockd needs glibc 2.17 or newer"
  fi
}

# --- installing ------------------------------------------------------------------------------------

install_from_release() {
  need gzip
  find_hasher
  if is_url "$place"; then find_downloader; fi
  make_work_directory
  if [ -z "$artifact" ] || [ -z "$sha256" ]; then
    fetch SHA256SUMS SHA256SUMS
    choose_artifact
  else
    sum=$sha256
  fi
  without_password "$place"
  if [ -n "$dry_run" ]; then
    say "would fetch $artifact from $result"
    say "would check that its SHA-256 is $sum"
    say "would install it as $target"
    return
  fi
  say "fetching $artifact from $result"
  case $artifact in
    *.gz)
      fetch "$artifact" artifact.gz
      check_sum "$work/artifact.gz"
      run gzip -dc "$work/artifact.gz" >"$work/lockd" || failed_to_write "unpack $artifact" "$bad_data"
      ;;
    *)
      fetch "$artifact" lockd
      check_sum "$work/lockd"
      ;;
  esac
  put_in_place
}

install_from_source() {
  case $0 in
    install.sh) checkout=. ;;
    */install.sh) checkout=${0%/*} ;;
    *) checkout=. ;;
  esac
  absolute "$checkout"
  checkout=$result
  if ! grep -q '"name": *"lockd"' "$checkout/package.json" 2>/dev/null; then
    fail "$not_found" "build lockd: $checkout is not a checkout of it" "run install.sh in the checkout"
  fi
  need node "it comes from nodejs.org or your distribution"
  need npm "it comes with Node.js"
  node_version=$(node --version)
  node_major=${node_version#v}
  node_major=${node_major%%.*}
  case $node_major in
    '' | *[!0-9]* | ? | 1?) fail "$unavailable" "build lockd: Node.js is ${node_version:-of no version}" "version 20 or newer is needed" ;;
  esac
  if [ -n "$dry_run" ]; then
    say "would run npm install and npm run build in $checkout"
    say "would install $checkout/dist/lockd as $target"
    return
  fi
  make_work_directory
  say "building lockd in $checkout"
  npm_step install --no-audit --no-fund
  npm_step run build
  run cp "$checkout/dist/lockd" "$work/lockd" || failed_to_write "copy $checkout/dist/lockd" 1
  put_in_place
}

npm_step() {
  run in_checkout npm "$@" >"$work/log" && return
  cat "$work/log" "$work/errors" >&2
  fail 1 "build lockd: npm $1 failed, see above"
}

# Only for `run`, whose background process it becomes.
in_checkout() {
  cd "$checkout" && exec "$@"
}

# Runs what is in the work directory, and renames it: whoever starts lockd gets the old or the new one,
# and processes that run keep the file that they started from.
put_in_place() {
  chmod 755 "$work/lockd"
  run "$work/lockd" --version >"$work/version" || does_not_run "--version" $?
  new_version=
  read -r word new_version <"$work/version" || :
  if [ "${word:-}" != lockd ] || [ -z "$new_version" ]; then
    fail "$bad_data" "try the new lockd: --version says \"${word:-} $new_version\", so it is another program"
  fi
  if [ -n "$version" ] && [ "$new_version" != "$version" ]; then
    fail "$bad_data" "try the new lockd: it is $new_version, not $version as asked for"
  fi
  run "$work/lockd" __smoke >"$work/smoke" || does_not_run __smoke $?
  # a power cut must not leave an empty file under the new name
  sync "$work/lockd" 2>/dev/null || :

  [ ! -d "$target" ] || fail "$cannot_write" "install $target: a directory has this name"
  replaced=
  [ ! -e "$target" ] || replaced=yes
  run mv -f "$work/lockd" "$target" || failed_to_write "install $target" "$cannot_write"
  created=
  say "installed lockd $new_version as $target"
  [ -z "$replaced" ] || say "what runs keeps the old version until it is started again"
  tell_about_path
}

tell_about_path() {
  case :$PATH: in
    *":$bin_dir:"*) ;;
    *)
      say "$bin_dir is not in PATH; to have it there: export PATH=\"$bin_dir:\$PATH\""
      say "try it: $target demo"
      return
      ;;
  esac
  first=$(command -v lockd) || first=$target
  if [ "$first" = "$target" ]; then
    say "try it: lockd demo"
  else
    say "but PATH finds $first first; try it: $target demo"
  fi
}

does_not_run() {
  first_error
  case $2-$result in
    126-*"ermission denied"*)
      fail "$cannot_write" "try the new lockd: $result" "is $bin_dir on a file system mounted noexec? choose another with --bin-dir DIR"
      ;;
  esac
  fail "$bad_data" "try the new lockd: lockd $1 ended with $2${result:+: $result}" "it was not installed; this machine is $platform"
}

uninstall() {
  [ -e "$target" ] || [ -L "$target" ] || fail "$not_found" "uninstall lockd: there is no $target" "say where it is with --bin-dir DIR"
  [ ! -d "$target" ] || fail "$cannot_write" "uninstall lockd: $target is a directory"
  if [ -n "$dry_run" ]; then
    say "would remove $target"
    return
  fi
  reason=$(rm -f "$target" 2>&1) || fail "$cannot_write" "uninstall lockd: $reason"
  say "removed $target; configuration and data were left alone"
}

# --- the release -----------------------------------------------------------------------------------

# Reads SHA256SUMS: sets `artifact`, unless one was named, and its `sum`.
choose_artifact() {
  wanted=$artifact sum='' known='' lines=0
  while read -r line_sum name || [ -n "$line_sum" ]; do
    name=${name#\*}
    is_sum "$line_sum" || continue
    lines=$((lines + 1))
    # names go into paths
    case $name in
      '' | .* | *[!A-Za-z0-9._+-]*) continue ;;
    esac
    if [ -n "$wanted" ]; then
      [ "$name" = "$wanted" ] || continue
    else
      case $name in
        lockd-*.gz) known="$known ${name%.gz}" ;;
      esac
      case $name in
        lockd-"$version"-"$platform".gz) ;;
        lockd-*-"$platform".gz) [ -z "$version" ] || continue ;;
        *) continue ;;
      esac
    fi
    if [ -n "$sum" ] && [ "$name" != "$artifact" ]; then
      fail "$usage_error" "choose an artifact: SHA256SUMS has several for $platform, $artifact and $name" "say --version X.Y.Z"
    fi
    artifact=$name sum=$line_sum
  done <"$work/SHA256SUMS"

  without_password "$place"
  [ "$lines" -gt 0 ] || fail "$bad_data" "read $result/SHA256SUMS: no line of it is a checksum" "is this the address of a release folder?"
  if [ -z "$sum" ] && [ -n "$wanted" ]; then
    fail "$not_found" "check $wanted: SHA256SUMS does not name it" "nothing is installed without a checksum; --sha256 SUM gives one"
  fi
  if [ -z "$sum" ]; then
    fail "$wrong_platform" "choose an artifact: there is no lockd ${version:+$version }for $platform in $result" \
      "it has:${known:- nothing}"
  fi
  sum=${sha256:-$sum}
}

# fetch NAME FILE: brings one file of the release into the work directory.
fetch() {
  if is_url "$place"; then
    download "$place/$1" "$work/$2"
  elif [ -f "$place/$1" ]; then
    # copied before it is checked: the checked bytes are the ones that will run
    run cp "$place/$1" "$work/$2" || failed_to_write "copy $place/$1" 1
  elif [ "$1" = SHA256SUMS ]; then
    fail "$not_found" "read $place/SHA256SUMS: there is none" "nothing is installed without a checksum; --sha256 SUM gives one for a single file"
  else
    fail "$not_found" "read $place/$1: there is no such file"
  fi
}

download() {
  case $downloader in
    curl)
      case $1 in
        https:*) schemes='=https' ;;
        *) schemes='=http,https' ;;
      esac
      run curl -fsSL --proto "$schemes" --connect-timeout "$timeout_seconds" \
        --speed-limit 1 --speed-time "$timeout_seconds" -o "$2" "$1"
      ;;
    wget) run wget -nv -t 1 -T "$timeout_seconds" -O "$2" "$1" ;;
    # of some builds, -T ends it with a segmentation fault; by itself it waits 15 minutes
    busybox) run wget -q -O "$2" "$1" ;;
  esac && return
  code=$?
  has_room || failed_to_write "download ${1##*/}" "$unavailable"
  first_error
  reason=$result
  without_password "$1"
  case $reason in
    *"rror: 404"* | *"ERROR 404"* | *" 404 Not Found"*)
      if [ "${1##*/}" = SHA256SUMS ]; then
        fail "$not_found" "download $result: the server has no such file (404)" "the address must be that of a release folder"
      fi
      fail "$not_found" "download $result: the server has no such file (404)" "SHA256SUMS names it: is the release still being put there?"
      ;;
  esac
  fail "$unavailable" "download $result: ${reason:-the connection was cut or stood still ($downloader ended with $code)}" \
    "nothing was installed: try again, or take the files another way and say --from DIR"
}

# The file is `artifact` as it came; it must have the sum `sum`.
check_sum() {
  case $hasher in
    sha256sum) actual=$(sha256sum <"$1") ;;
    shasum) actual=$(shasum -a 256 <"$1") ;;
    openssl) actual=$(openssl dgst -sha256 -r <"$1") ;;
  esac
  actual=${actual%% *}
  is_sum "$actual" || fail 1 "check $artifact: $hasher gave no sum"
  [ "$actual" = "$sum" ] || fail "$bad_data" "check $artifact: its SHA-256 is $actual, not $sum" \
    "it was damaged or changed on its way; nothing was installed"
}

# --- tools -----------------------------------------------------------------------------------------

find_downloader() {
  if have curl; then downloader=curl
  elif have wget; then
    downloader=wget
    case $(wget --help 2>&1) in
      *BusyBox*) downloader=busybox ;;
    esac
  else fail "$unavailable" "download lockd: neither curl nor wget is installed" "install one, or take the files another way and say --from DIR"
  fi
}

find_hasher() {
  if have sha256sum; then hasher=sha256sum
  elif have shasum; then hasher=shasum
  elif have openssl; then hasher=openssl
  else fail "$unavailable" "check the download: none of sha256sum, shasum and openssl is installed" "nothing is installed without a checksum"
  fi
}

have() {
  command -v "$1" >/dev/null 2>&1
}

need() {
  have "$1" || fail "$unavailable" "find $1: it is not installed${2:+; $2}"
}

# Runs a command in the background, so that a signal is heard while it runs. Its errors go to a file.
run() {
  "$@" </dev/null 2>"$work/errors" &
  child=$!
  wait "$child"
  code=$?
  child=
  return "$code"
}

# All that is not yet checked lies here: beside the target, since only a rename within a file system
# replaces a file in one step. A dry run touches nothing there.
make_work_directory() {
  if [ -n "$dry_run" ]; then
    parent=${TMPDIR:-/tmp}
  else
    parent=$bin_dir
    missing=$bin_dir
    while [ ! -d "$missing" ] && [ -n "$missing" ]; do
      created=$missing
      missing=${missing%/*}
    done
    reason=$(mkdir -p "$bin_dir" 2>&1) || fail "$cannot_write" "make $bin_dir: $reason" "choose another with --bin-dir DIR, or run this as root"
  fi
  work=$(mktemp -d "$parent/.lockd-install.XXXXXX" 2>&1) || {
    reason=$work work=
    fail "$cannot_write" "write to $parent: $reason" "choose another with --bin-dir DIR, or run this as root"
  }
}

clean_up() {
  trap '' HUP INT TERM
  if [ -n "$child" ]; then
    kill "$child" 2>/dev/null
    wait "$child" 2>/dev/null
  fi
  [ -z "$work" ] || rm -rf "$work"
  # directories that were made for nothing
  while [ -n "$created" ]; do
    rmdir "$bin_dir" 2>/dev/null
    [ "$bin_dir" != "$created" ] || break
    bin_dir=${bin_dir%/*}
  done
}

# A write failed: says whether for want of room, else ends with CODE and the command's own words.
failed_to_write() {
  has_room || fail "$cannot_write" "$1: no space is left in $bin_dir" "free about 200 MB there, or choose another with --bin-dir DIR"
  first_error
  fail "$2" "$1: ${result:-failed}"
}

has_room() {
  printf '%8192s' '' 2>/dev/null >"$work/room"
}

# --- words -----------------------------------------------------------------------------------------

# The first line that the last `run` wrote to stderr and that says something, as `result`: gzip begins
# with an empty line, wget with one that holds the address and a colon.
first_error() {
  result=
  [ -f "$work/errors" ] || return 0
  while read -r result || [ -n "$result" ]; do
    case $result in
      '' | *:) result='' ;;
      *) break ;;
    esac
  done <"$work/errors"
}

absolute() {
  case $1 in
    /*) result=$1 ;;
    .) result=$PWD ;;
    *) result=$PWD/${1#./} ;;
  esac
  while [ "$result" != / ] && [ "${result%/}" != "$result" ]; do result=${result%/}; done
}

# A URL as it may be shown and logged, as `result`.
without_password() {
  result=$1
  host=${1#*://}
  host=${host%%/*}
  case $host in
    *@*) result=${1%%://*}://${1#*@} ;;
  esac
}

is_url() {
  case $1 in
    http://* | https://*) ;;
    *) return 1 ;;
  esac
}

is_sum() {
  [ ${#1} -eq 64 ] || return 1
  case $1 in
    *[!0-9a-f]*) return 1 ;;
  esac
}

say() {
  printf '%s\n' "$1"
}

fail() {
  printf 'install.sh: %s\n' "$2" >&2
  [ -z "${3:-}" ] || printf '  %s\n' "$3" >&2
  exit "$1"
}

main "$@"; }
