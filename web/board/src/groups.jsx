// Cards under headings: the part of a tag before its first slash.
import {useSetting} from './board.js';

export function groupsOf(tags) {
  const groups = new Map();
  for (const tag of tags) {
    const slash = tag.name.indexOf('/');
    const name = slash > 0 ? tag.name.slice(0, slash) : '';
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(tag);
  }
  return groups;
}

function Group({name, tags, render}) {
  const [open, setOpen] = useSetting(`open.${name}`, true);
  return (
    <details class="group" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary><h2>{name}</h2> <span class="count">{tags.length}</span></summary>
      {open && <div class="cards">{tags.map(render)}</div>}
    </details>
  );
}

export function Groups({tags, render}) {
  if (tags.length === 0) return <p class="empty">No tag is shown. Change the filter.</p>;
  const groups = groupsOf(tags);
  return [...groups].map(([name, members]) => (name === '' ?
    <div class="cards" key="">{members.map(render)}</div> :
    <Group key={name} name={name} tags={members} render={render} />));
}
