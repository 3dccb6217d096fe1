// What all views share: the state of the server, the chosen runs and the settings.
import {useCallback, useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {ask, isReport} from './api.js';
import {familyOf} from './colors.js';

const POLL = 2000;  // milliseconds between two questions for news

// A setting that the browser remembers. Storage may be forbidden; then it lasts as long as the page.
export function useSetting(name, initial) {
  const [value, setValue] = useState(() => {
    try {
      const kept = localStorage.getItem(`muster_board.${name}`);
      return kept === null ? initial : JSON.parse(kept);
    } catch {
      return initial;
    }
  });
  const set = useCallback((next) => {
    setValue(next);
    try {
      localStorage.setItem(`muster_board.${name}`, JSON.stringify(next));
    } catch {
      // nothing is remembered
    }
  }, [name]);
  return [value, set];
}

// {state, family, hidden, setHidden, error}: `state` is the answer of api/state, null before the first.
export function useBoard() {
  const [state, setState] = useState(null);
  const [error, setError] = useState('');
  const [hidden, setHidden] = useState(() => new Set());
  const version = useRef(undefined);
  useEffect(() => {
    let timer;
    let ended = false;
    const poll = async () => {
      // A page that nobody sees asks for nothing.
      if (document.hidden && version.current !== undefined) {
        timer = setTimeout(poll, POLL);
        return;
      }
      try {
        const news = await ask('state', {since: version.current});
        if (ended) return;
        setError('');
        if (news.runs) {
          // The run of the folder itself has its name.
          for (const run of news.runs) run.label = run.name === '.' ? news.directories[0] : run.name;
          version.current = news.version;
          setState(news);
        }
        // While files are read for the first time, news come often.
        if (isReport) return;
        const reading = news.runs && news.read_bytes < news.bytes;
        timer = setTimeout(poll, reading ? 300 : POLL);
      } catch (failure) {
        if (ended) return;
        setError(`The board does not answer (${failure.message}). The page asks again.`);
        timer = setTimeout(poll, POLL);
      }
    };
    poll();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, []);
  const names = state ? state.runs.map((run) => run.name).join('\n') : '';
  const family = useMemo(() => (state ? familyOf(state.runs) : []), [names]);
  return {state, family, hidden, setHidden, error};
}

// What a promise brings; asked again when `inputs` change. {data, error, waiting}
export function useAnswer(make, inputs) {
  const [answer, setAnswer] = useState({data: null, error: '', waiting: true});
  useEffect(() => {
    const control = new AbortController();
    setAnswer((before) => ({...before, waiting: true}));
    make(control.signal).then(
      (data) => !control.signal.aborted && setAnswer({data, error: '', waiting: false}),
      (failure) => !control.signal.aborted && setAnswer({data: null, error: failure.message, waiting: false}),
    );
    return () => control.abort();
  }, inputs);
  return answer;
}

// Whether the element was near the window once. What is far below is not asked for.
export function useSeen(reference) {
  // A report is printed as a whole.
  const [seen, setSeen] = useState(isReport);
  useEffect(() => {
    if (isReport) return undefined;
    const observer = new IntersectionObserver((entries) => {
      setSeen(entries[entries.length - 1].isIntersecting);
    }, {rootMargin: '200px'});
    observer.observe(reference.current);
    return () => observer.disconnect();
  }, []);
  return seen;
}

// The width of an element in pixels.
export function useWidth(reference) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(() => setWidth(reference.current ? reference.current.clientWidth : 0));
    observer.observe(reference.current);
    return () => observer.disconnect();
  }, []);
  return width;
}

// Text that may be an unfinished regular expression: then it is searched for as it is.
export function matcherOf(text) {
  if (!text) return () => true;
  try {
    const expression = new RegExp(text, 'i');
    return (name) => expression.test(name);
  } catch {
    return (name) => name.toLowerCase().includes(text.toLowerCase());
  }
}
