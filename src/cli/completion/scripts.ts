/**
 * What each shell must run to be completed: it hands over the line, and does with the answer of
 * `lockd __complete` what that says. The scripts know no command and no flag, and never evaluate what was
 * typed or answered.
 */

const bash = `# bash completion for lockd: source <(lockd completion bash)

_lockd() {
  local text
  local -a texts=()
  COMPREPLY=()
  # the line goes over as text: nothing that was typed is evaluated
  while IFS= read -r -d '' text; do
    texts+=("$text")
  done < <(command lockd __complete bash -- "$COMP_WORDBREAKS" "\${COMP_LINE:0:COMP_POINT}" 2>/dev/null </dev/null)
  case "\${texts[0]-}" in
    words) COMPREPLY=("\${texts[@]:1}") ;;
    files) compopt -o default 2>/dev/null ;;
    directories) compopt -o dirnames 2>/dev/null ;;
    child) _lockd_child ;;
  esac
}

# behind \`--\` stands the line of another command
_lockd_child() {
  local at text
  for ((at = 1; at < COMP_CWORD; at++)); do
    [[ \${COMP_WORDS[at]} == -- ]] && break
  done
  if declare -F _comp_command_offset >/dev/null; then
    _comp_command_offset $((at + 1))
  elif declare -F _command_offset >/dev/null; then
    _command_offset $((at + 1))
  elif ((COMP_CWORD == at + 1)); then
    while IFS= read -r text; do
      COMPREPLY+=("$text")
    done < <(compgen -c -- "\${COMP_WORDS[COMP_CWORD]}")
  else
    compopt -o default 2>/dev/null
  fi
}

complete -F _lockd lockd
`;

const zsh = `#compdef lockd
# zsh completion for lockd: source <(lockd completion zsh) after compinit, or a file _lockd in fpath

_lockd() {
  local text
  local -a texts values lines
  while IFS= read -r -d '' text; do
    texts+=("$text")
  done < <(command lockd __complete zsh -- "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2>/dev/null </dev/null)
  case "\${texts[1]-}" in
    words)
      local -i at
      for ((at = 2; at < $#texts; at += 2)); do
        values+=("\${texts[at]}")
        lines+=("\${texts[at + 1]}")
      done
      compadd -l -d lines -a values
      ;;
    files)
      compset -P '--*='
      _files
      ;;
    directories)
      compset -P '--*='
      _files -/
      ;;
    child)
      local -i before=\${words[(i)--]}
      shift before words
      ((CURRENT -= before))
      _normal
      ;;
  esac
}

if [[ "\${funcstack[1]-}" == _lockd ]]; then
  _lockd "$@"
elif (($+functions[compdef])); then
  compdef _lockd lockd
fi
`;

const fish = `# fish completion for lockd: lockd completion fish | source

function __lockd_complete
    set -l before (commandline -opc)
    set -l typed (commandline -ct)
    set -l current (string unescape -- "$typed" 2>/dev/null)
    or set current (string replace -r '^["\\']' '' -- "$typed")
    set -l texts (command lockd __complete fish -- $before[2..-1] "$current" 2>/dev/null </dev/null | string split0)
    switch "$texts[1]"
        case words
            string join0 -- $texts[2..-1]
        case files directories
            set -l lead (string match -r -- '^--[^=]*=' "$current")
            set -l path (string replace -r -- '^--[^=]*=' '' "$current")
            set -l found
            if test $texts[1] = files
                set found (__fish_complete_path "$path")
            else
                set found (__fish_complete_directories "$path")
            end
            for one in $found
                string join0 -- "$lead$one"
            end
        case child
            set -l at (contains -i -- -- $before)
            set -l line (string escape -- $before[(math $at + 1)..-1]) "$typed"
            complete -C (string join ' ' -- $line) | string join0
    end
end

complete -c lockd -e
complete -c lockd -f -k -a '(__lockd_complete | string split0)'
`;

/** By the name of the shell. */
export const completionScripts: ReadonlyMap<string, string> = new Map([
  ["bash", bash],
  ["zsh", zsh],
  ["fish", fish],
]);
