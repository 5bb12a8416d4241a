// The number of texts that are visible, and those with less contrast to the ground behind them than 4.5 (3 if large).
const parse = (text) => {
  const found = text.match(/[\d.]+/g).map(Number);
  return found.length > 3 ? found : [...found, 1];
};
const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
const light = (rgb) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => sum + weight * linear(rgb[i] / 255), 0);
const ground = (one) => {
  for (; one; one = one.parentElement) {
    const found = parse(getComputedStyle(one).backgroundColor);
    if (found[3] === 1) return found;
  }
  return [255, 255, 255, 1];
};
const hasText = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
const isVisible = (one) => one.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !one.closest(".unseen, .skip, option, datalist");
const isLarge = ({ fontSize, fontWeight }) => parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.66 && Number(fontWeight) >= 700);
const texts = [...document.querySelectorAll("body *")].filter((one) => hasText(one) && isVisible(one));
const faint = texts.flatMap((one) => {
  const style = getComputedStyle(one);
  const [high, low] = [light(parse(style.color)), light(ground(one))].sort((x, y) => y - x);
  const ratio = (high + 0.05) / (low + 0.05);
  return ratio < (isLarge(style) ? 3 : 4.5) ? [`${one.tagName}.${one.className} ${one.textContent.slice(0, 40)}: ${ratio.toFixed(2)}`] : [];
});
return [texts.length, faint];
