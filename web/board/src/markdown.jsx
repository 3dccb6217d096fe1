// Markdown as elements of the page. marked reads it; nothing in it becomes HTML of the page, and it loads nothing: HTML is
// shown as text, an image as its description, a link as its words with the address behind them.
import {lexer} from 'marked';

const plain = (text) => text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => ({amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'"})[name]);

function Inline({tokens}) {
  return (tokens || []).map((token, at) => {
    switch (token.type) {
      case 'strong': return <strong key={at}><Inline tokens={token.tokens} /></strong>;
      case 'em': return <em key={at}><Inline tokens={token.tokens} /></em>;
      case 'del': return <del key={at}><Inline tokens={token.tokens} /></del>;
      case 'codespan': return <code key={at}>{plain(token.text)}</code>;
      case 'br': return <br key={at} />;
      case 'escape': return plain(token.text);
      case 'link': return <span key={at}><Inline tokens={token.tokens} />{token.href !== token.text && ` (${token.href})`}</span>;
      case 'image': return <span key={at}>{`[image: ${plain(token.text || token.href)}]`}</span>;
      case 'text': return token.tokens ? <Inline key={at} tokens={token.tokens} /> : plain(token.text);
      default: return token.raw;
    }
  });
}

function Blocks({tokens}) {
  return (tokens || []).map((token, at) => {
    switch (token.type) {
      case 'space': return null;
      case 'heading': return token.depth < 3 ? <h3 key={at}><Inline tokens={token.tokens} /></h3> : <h4 key={at}><Inline tokens={token.tokens} /></h4>;
      case 'paragraph': return <p key={at}><Inline tokens={token.tokens} /></p>;
      case 'text': return <span key={at}>{token.tokens ? <Inline tokens={token.tokens} /> : plain(token.text)}</span>;
      case 'code': return <pre key={at}>{token.text}</pre>;
      case 'blockquote': return <blockquote key={at}><Blocks tokens={token.tokens} /></blockquote>;
      case 'hr': return <hr key={at} />;
      case 'list': {
        const items = token.items.map((item, number) => <li key={number}><Blocks tokens={item.tokens} /></li>);
        return token.ordered ? <ol key={at}>{items}</ol> : <ul key={at}>{items}</ul>;
      }
      case 'table': return (
        <div class="wide-scroll" tabIndex={0} key={at}><table class="facts">
          <thead><tr>{token.header.map((cell, column) => <th key={column} class={token.align[column] === 'right' ? 'right' : ''}><Inline tokens={cell.tokens} /></th>)}</tr></thead>
          <tbody>{token.rows.map((row, number) => <tr key={number}>{row.map((cell, column) => <td key={column} class={token.align[column] === 'right' ? 'right' : ''}><Inline tokens={cell.tokens} /></td>)}</tr>)}</tbody>
        </table></div>
      );
      default: return <pre key={at}>{token.raw}</pre>;
    }
  });
}

// Text that cannot be read as Markdown is shown as it is.
export function Markdown({text}) {
  let tokens;
  try {
    tokens = lexer(text);
  } catch {
    return <pre>{text}</pre>;
  }
  return <div class="markdown"><Blocks tokens={tokens} /></div>;
}
